(** * Lemma 6. Composition: the network's run is the program's run

    Informal statement.  If the embedding, every head, every MLP block, the halting unit and the unembedding agree with
    the program on all codes, then for every input the network does what the interpreter does: the same outputs after
    the same number of layers, or no halting within the same bound.  Where the interpreter raises an error, nothing is
    claimed.

    Where it is used.  The final statement of kleene/checker.py ([check], [statement_of]), which composes what it proved
    of the parts: [prove_embeddings], [prove_hard_attention], [prove_copies], [prove_updates], [prove_clearing],
    [prove_halting], [prove_output], [prove_decoding].  The definitions of the program's side can be read beside
    machines/interpreter.py (names in comments), those of the network's side beside the transformer in kleene/networks.

    [selecting_head_agrees] closes the gap to lemma 2: what is asked of a head here follows from its scores. *)

From Coq Require Import ZArith Reals List Lia Bool FunctionalExtensionality.
From Flocq Require Import Core.
From Kleene Require Import Sums Attention.
Import ListNotations.

(** ** Programs and what they mean (machines/interpreter.py) *)

Definition state := nat -> nat. (* variable → index of its value *)

Inductive output : Type :=
| Index (v : nat)                   (* a categorical head's value *)
| Average (total : Z) (count : nat). (* a numerical head's: a sum over the number of selected positions *)

Record head := {
  where_ : list (nat * nat);        (* limits on the position that looks: variable, value *)
  among : list (nat * nat);         (* limits on positions that are looked at *)
  matching : option (nat * (nat * (nat -> list nat)));
                                    (* query and key variables, and the key values that a query matches *)
  offsets : option (list Z);        (* which distances are allowed; None: all *)
  value_of : nat;                   (* the variable that is read *)
  whole_value : nat -> Z;           (* the number that a value's index stands for, where it is averaged *)
  numerical : bool;
  default : option output
}.

Record move := {                    (* a head that writes into a variable *)
  looking : head;
  into : nat;
  replacing : option nat            (* the variable of the selected position that must hold the old value *)
}.

Record part := {                    (* one layer of a cycle *)
  heads : nat -> head;              (* its heads, by number *)
  moves : list move;
  step : state -> (nat -> option output) -> option state (* None: it reads an undefined head, or leaves a range *)
}.

Record program := {
  causal : bool;
  initial : nat -> nat -> state;    (* token, position: [initial_states] *)
  cycle : nat -> part;              (* [by_layer[number % len(by_layer)]] *)
  halt : list (nat * nat);          (* variable, value *)
  result : nat                      (* the output variable *)
}.

Definition has (s : state) (limits : list (nat * nat)) : bool := (* [Layer._has] *)
  forallb (fun '(v, k) => Nat.eqb (s v) k) limits.

Definition selects (p : program) (h : head) (states : list state) (i j : nat) : bool := (* [Layer.selected] *)
  match nth_error states i, nth_error states j with
  | Some mine, Some other =>
      has mine (where_ h) && has other (among h)
      && match matching h with
         | None => true
         | Some (query, (key, matched)) => existsb (Nat.eqb (other key)) (matched (mine query))
         end
      && match offsets h with
         | None => true
         | Some allowed => existsb (Z.eqb (Z.of_nat j - Z.of_nat i)) allowed
         end
      && (negb (causal p) || Nat.leb j i)
  | _, _ => false
  end.

Definition selected_positions (p : program) (h : head) (states : list state) (i : nat) : list nat :=
  filter (selects p h states i) (seq 0 (length states)).

Definition read (states : list state) (v j : nat) : nat :=
  match nth_error states j with Some s => s v | None => O end.

Definition head_output (p : program) (h : head) (states : list state) (i : nat) : option output := (* [Layer.output] *)
  let found := selected_positions p h states i in
  match found with
  | [] => default h
  | j :: others =>
      if numerical h
      then Some (Average (fold_right (fun j s => whole_value h (read states (value_of h) j) + s)%Z 0%Z found)
                         (length found))
      else match others with [] => Some (Index (read states (value_of h) j)) | _ => None end
  end.

Definition write (s : state) (v k : nat) : state := fun w => if Nat.eqb w v then k else s w.

Definition move_at (p : program) (states : list state) (i : nat) (m : move) (s : option state) : option state :=
  match s, nth_error states i with
  | Some s, Some mine =>
      if negb (has mine (where_ (looking m))) then Some s
      else match replacing m, selected_positions p (looking m) states i with
           | Some _, [] => Some s
           | Some old, j :: _ =>
               match head_output p (looking m) states i with
               | Some (Index k) => if Nat.eqb (read states old j) (mine (into m)) then Some (write s (into m) k) else None
               | _ => None
               end
           | None, _ =>
               match head_output p (looking m) states i with
               | Some (Index k) => Some (write s (into m) k)
               | _ => None
               end
           end
  | _, _ => None
  end.

Definition moved (p : program) (q : part) (states : list state) (i : nat) : option state := (* [Layer.moved] *)
  fold_left (fun s m => move_at p states i m s) (moves q) (nth_error states i).

Definition step_at (p : program) (q : part) (states : list state) (i : nat) : option state := (* [run_step] *)
  match moved p q states i with
  | Some s => step q s (fun h => head_output p (heads q h) states i)
  | None => None
  end.

Fixpoint all {A B} (f : A -> option B) (l : list A) : option (list B) :=
  match l with
  | [] => Some []
  | x :: l => match f x, all f l with Some y, Some r => Some (y :: r) | _, _ => None end
  end.

Definition layer (p : program) (number : nat) (states : list state) : option (list state) :=
  all (step_at p (cycle p number) states) (seq 0 (length states)).

Definition halted (p : program) (states : list state) : bool := (* [halted] *)
  forallb (fun s => has s (halt p)) states.

Inductive outcome : Type :=
| Done (outputs : list nat) (layers : nat)
| DidNotHalt
| Raised.

Fixpoint until_halt (p : program) (budget number : nat) (states : list state) : outcome := (* [layers_of], [run] *)
  match budget with
  | O => DidNotHalt
  | S budget =>
      match layer p number states with
      | None => Raised
      | Some after => if halted p after then Done (map (fun s => s (result p)) after) (S number)
                      else until_halt p budget (S number) after
      end
  end.

Fixpoint for_layers (p : program) (budget number : nat) (states : list state) : outcome :=
  match budget with
  | O => Done (map (fun s => s (result p)) states) number
  | S budget =>
      match layer p number states with
      | None => Raised
      | Some after => for_layers p budget (S number) after
      end
  end.

Definition embed_all {A} (f : nat -> nat -> A) (tokens : list nat) : list A :=
  map (fun i => f (nth i tokens O) i) (seq 0 (length tokens)).

Inductive depth : Type := Fixed (layers : nat) | Halting (max_layers : nat).

Definition run_program (p : program) (d : depth) (tokens : list nat) : outcome :=
  match d with
  | Fixed n => for_layers p n 0 (embed_all (initial p) tokens)
  | Halting m => until_halt p m 0 (embed_all (initial p) tokens)
  end.

(** A decoder appends its last position's output until [stop] or [max_tokens] ([decode]). *)

Fixpoint decode (run : list nat -> outcome) (stop : option nat) (budget : nat) (tokens : list nat) (layers : nat) : outcome :=
  match budget with
  | O => Done [] layers
  | S budget =>
      match run tokens with
      | Done outputs n =>
          let made := last outputs O in
          if match stop with Some k => Nat.eqb made k | None => false end
          then Done [made] (layers + n)
          else match decode run stop budget (tokens ++ [made]) (layers + n) with
               | Done more total => Done (made :: more) total
               | other => other
               end
      | other => other
      end
  end.

(** ** Networks (kleene/networks) *)

Inductive dim : Type :=             (* the residual stream, by what it holds *)
| Var (v i : nat)
| Head (h i : nat)
| Scratch (i : nat).

Definition vec := dim -> R.

Record block := {
  attends_to : list vec -> nat -> nat -> nat -> R; (* what head h adds to its dimension k at position i *)
  moves_by : list vec -> nat -> nat -> nat -> R;   (* what heads add to variables' dimensions *)
  mlp : vec -> vec                                 (* both halves, residual connections included *)
}.

Record network := {
  embed : nat -> nat -> vec;                       (* token, position *)
  blocks : nat -> block;                           (* of each layer *)
  done : vec -> bool;
  unembed : vec -> nat
}.

Definition attended (b : block) (xs : list vec) (i : nat) : vec :=
  match nth_error xs i with
  | Some x => fun d => match d with
                       | Var v k => (x d + moves_by b xs i v k)%R
                       | Head h k => (x d + attends_to b xs i h k)%R
                       | Scratch _ => x d
                       end
  | None => fun _ => 0%R
  end.

Definition network_layer (n : network) (number : nat) (xs : list vec) : list vec :=
  map (fun i => mlp (blocks n number) (attended (blocks n number) xs i)) (seq 0 (length xs)).

Fixpoint network_until_halt (n : network) (budget number : nat) (xs : list vec) : outcome :=
  match budget with
  | O => DidNotHalt
  | S budget =>
      let after := network_layer n number xs in
      if forallb (done n) after then Done (map (unembed n) after) (S number)
      else network_until_halt n budget (S number) after
  end.

Fixpoint network_for_layers (n : network) (budget number : nat) (xs : list vec) : outcome :=
  match budget with
  | O => Done (map (unembed n) xs) number
  | S budget => network_for_layers n budget (S number) (network_layer n number xs)
  end.

Definition run_network (n : network) (d : depth) (tokens : list nat) : outcome :=
  match d with
  | Fixed k => network_for_layers n k 0 (embed_all (embed n) tokens)
  | Halting m => network_until_halt n m 0 (embed_all (embed n) tokens)
  end.

(** ** Agreement on codes, part by part *)

Section Agreement.

Variable p : program.
Variable n : network.
Variable valid : state -> Prop.                     (* every variable has one of its values *)
Variable valid_token : nat -> Prop.
Variable longest : nat.                             (* positions, and the length that averages are resolved for *)
Variable coding : nat -> nat -> nat -> R.           (* variable, value, dimension: one-hot or bits *)
Variable holds : nat -> nat -> option output -> (nat -> R) -> Prop.
  (* layer, head: what the head's dimensions hold for an output; for None all that an undefined head may hold *)

Definition code (s : state) : vec := fun d => match d with Var v k => coding v (s v) k | _ => 0%R end.

Definition represents (number : nat) (x : vec) (s : state) (o : nat -> option output) : Prop :=
  (forall v k, x (Var v k) = coding v (s v) k) /\
  (forall h, holds number h (o h) (fun k => x (Head h k))) /\
  (forall k, x (Scratch k) = 0%R).

Record agrees : Prop := {
  embedding_agrees : forall t i, valid_token t -> (i < longest)%nat ->
    valid (initial p t i) /\ embed n t i = code (initial p t i);
  heads_agree : forall number h states i, Forall valid states -> (i < length states <= longest)%nat ->
    holds number h (head_output p (heads (cycle p number) h) states i)
      (attends_to (blocks n number) (map code states) i h);
  moves_agree : forall number states i s after, Forall valid states -> (i < length states <= longest)%nat ->
    nth_error states i = Some s -> moved p (cycle p number) states i = Some after ->
    forall v k, (coding v (s v) k + moves_by (blocks n number) (map code states) i v k = coding v (after v) k)%R;
  mlp_agrees : forall number x s o after, represents number x s o -> step (cycle p number) s o = Some after ->
    valid after /\ mlp (blocks n number) x = code after;
  halting_agrees : forall s, valid s -> done n (code s) = has s (halt p);
  unembedding_agrees : forall s, valid s -> unembed n (code s) = s (result p)
}.

Hypothesis A : agrees.

Lemma all_seq : forall {B} (f : nat -> option B) (l : list nat) r, all f l = Some r ->
  length r = length l /\ Forall2 (fun i y => f i = Some y) l r.
Proof.
  induction l as [| a l IH]; simpl; intros r H.
  - injection H as <-. split; auto.
  - destruct (f a) eqn:F; [| discriminate]. destruct (all f l); [| discriminate].
    injection H as <-. destruct (IH _ eq_refl). split; simpl; auto.
Qed.

Lemma layer_agrees : forall number states after, Forall valid states -> (length states <= longest)%nat ->
  layer p number states = Some after ->
  length after = length states /\ Forall valid after /\ network_layer n number (map code states) = map code after.
Proof.
  intros number states after V L H. unfold layer in H.
  destruct (all_seq _ _ _ H) as [Len F]. rewrite seq_length in Len. split; auto.
  assert (Each : forall i y, (i < length states)%nat -> step_at p (cycle p number) states i = Some y ->
    valid y /\ mlp (blocks n number) (attended (blocks n number) (map code states) i) = code y).
  { intros i y I S. unfold step_at in S. destruct (moved p (cycle p number) states i) as [s' |] eqn:M; [| discriminate].
    apply (mlp_agrees A) with (2 := S).
    destruct (nth_error states i) as [s |] eqn:E; [| apply nth_error_None in E; lia].
    assert (N : nth_error (map code states) i = Some (code s)) by now apply map_nth_error.
    unfold attended. rewrite N. split; [| split].
    - intros v k. simpl. apply (moves_agree A number states i s s'); auto.
    - intros h. simpl.
      replace (fun k : nat => (0 + attends_to (blocks n number) (map code states) i h k)%R)
        with (attends_to (blocks n number) (map code states) i h).
      + apply (heads_agree A); auto.
      + apply functional_extensionality. intros k. now rewrite Rplus_0_l.
    - reflexivity. }
  unfold network_layer. rewrite map_length.
  assert (B : forall i, In i (seq 0 (length states)) -> (i < length states)%nat) by (intros i I; apply in_seq in I; lia).
  clear H Len. revert B. induction F as [| i y l r H F IH]; simpl; intros B; auto.
  destruct (Each i y) as [Vy My]; auto. destruct IH as [Vr Mr]; auto.
  split; [constructor; auto | now rewrite My, Mr].
Qed.

Lemma halted_agrees : forall states, Forall valid states -> forallb (done n) (map code states) = halted p states.
Proof.
  unfold halted. induction 1; simpl; auto. rewrite (halting_agrees A) by auto. now f_equal.
Qed.

Lemma outputs_agree : forall states, Forall valid states ->
  map (unembed n) (map code states) = map (fun s => s (result p)) states.
Proof. induction 1; simpl; auto. rewrite (unembedding_agrees A) by auto. now f_equal. Qed.

Lemma until_halt_agrees : forall budget number states, Forall valid states -> (length states <= longest)%nat ->
  until_halt p budget number states <> Raised ->
  network_until_halt n budget number (map code states) = until_halt p budget number states.
Proof.
  induction budget as [| budget IH]; simpl; intros number states V L R; auto.
  destruct (layer p number states) as [after |] eqn:E; [| contradiction].
  destruct (layer_agrees _ _ _ V L E) as (Len & V' & ->).
  rewrite halted_agrees, outputs_agree by auto.
  destruct (halted p after); auto. apply IH; auto. lia.
Qed.

Lemma for_layers_agrees : forall budget number states, Forall valid states -> (length states <= longest)%nat ->
  for_layers p budget number states <> Raised ->
  network_for_layers n budget number (map code states) = for_layers p budget number states.
Proof.
  induction budget as [| budget IH]; simpl; intros number states V L R.
  - now rewrite outputs_agree.
  - destruct (layer p number states) as [after |] eqn:E; [| contradiction].
    destruct (layer_agrees _ _ _ V L E) as (Len & V' & ->). apply IH; auto. lia.
Qed.

Lemma embedded : forall tokens, Forall valid_token tokens -> (length tokens <= longest)%nat ->
  Forall valid (embed_all (initial p) tokens) /\
  embed_all (embed n) tokens = map code (embed_all (initial p) tokens).
Proof.
  intros tokens T L. unfold embed_all. rewrite map_map.
  assert (E : forall i, In i (seq 0 (length tokens)) ->
    valid (initial p (nth i tokens O) i) /\ embed n (nth i tokens O) i = code (initial p (nth i tokens O) i)).
  { intros i I. apply in_seq in I. apply (embedding_agrees A); [| lia].
    rewrite Forall_forall in T. apply T. apply nth_In. lia. }
  split.
  - rewrite Forall_forall. intros s I. apply in_map_iff in I. destruct I as (i & <- & I). now apply E.
  - apply map_ext_in. intros i I. now apply E.
Qed.

(** The theorem: for every input. *)

Theorem network_runs_program : forall d tokens, Forall valid_token tokens -> (length tokens <= longest)%nat ->
  run_program p d tokens <> Raised -> run_network n d tokens = run_program p d tokens.
Proof.
  intros d tokens T L R. destruct (embedded tokens T L) as [V E].
  assert (Len : (length (embed_all (initial p) tokens) <= longest)%nat).
  { unfold embed_all. now rewrite map_length, seq_length. }
  destruct d; simpl in *; rewrite E; [apply for_layers_agrees | apply until_halt_agrees]; auto.
Qed.

(** Decoders: the tokens that are appended, and the layers that they took. *)

Theorem network_decodes_program : forall d stop budget tokens layers, Forall valid_token tokens ->
  (length tokens + budget <= S longest)%nat ->
  (forall tokens outputs layers, run_program p d tokens = Done outputs layers -> valid_token (last outputs O)) ->
  decode (run_program p d) stop budget tokens layers <> Raised ->
  decode (run_network n d) stop budget tokens layers = decode (run_program p d) stop budget tokens layers.
Proof.
  intros d stop budget. induction budget as [| budget IH]; simpl; intros tokens layers T L K R; auto.
  assert (Q : run_network n d tokens = run_program p d tokens).
  { apply network_runs_program; auto; [lia |]. intros E. now rewrite E in R. }
  rewrite Q. destruct (run_program p d tokens) as [outputs layers' | |] eqn:E; auto.
  destruct (match stop with Some k => Nat.eqb (last outputs O) k | None => false end); auto.
  rewrite IH; auto.
  - apply Forall_app. split; auto. constructor; auto. now apply (K tokens outputs layers').
  - rewrite app_length. simpl. lia.
  - intros E'. now rewrite E' in R.
Qed.

End Agreement.

(** ** A head that selects by its scores agrees (lemma 2)

    What the weights of a head must satisfy on codes: a position that the program selects scores [S]; one that it does
    not select is excluded or scores at most [N] - [G]; the null key scores [N], at least [G] below [S].  Values are
    whole numbers.  Then every dimension of the output is the selected value's, the null value, or the rounded
    average: what [heads_agree] asks for. *)

Section Selecting.

Variables prec emin : Z.
Context (prec_gt_0 : Prec_gt_0 prec).
Hypothesis emin_le : (emin <= 0)%Z.
Variable rnd : R -> Z.
Context (valid_rnd : Valid_rnd rnd).
Variable ex : R -> R.
Hypothesis Hex : exponential prec emin ex.

Notation rounded := (round radix2 (FLT_exp emin prec) rnd).

Variable p : program.
Variable h : head.
Variable states : list state.
Variable i : nat.
Variable scores : nat -> option R.          (* of position i's query against position j's key *)
Variable row : nat -> R.                    (* one dimension of position j's value *)
Variables S N G null : R.

Definition keys : list key := map (fun j => Build_key (scores j) (row j)) (seq 0 (length states)).
Definition null_key : key := Build_key (Some N) null.

Hypothesis gap : underflowing prec emin G.
Hypothesis null_below : (N <= S - G)%R.
Hypothesis scored : forall j, (j < length states)%nat ->
  if selects p h states i j then scores j = Some S
  else match scores j with Some s => (s <= N - G)%R | None => True end.
Hypothesis whole_rows : forall j, (j < length states)%nat -> multiple 0 (row j).
Hypothesis whole_null : multiple 0 null.

Lemma S_above : forall s, (s <= N - G)%R -> s <> S.
Proof.
  intros s L E. pose proof (underflowing_pos prec emin emin_le G gap). subst.
  apply (Rlt_irrefl S). apply Rle_lt_trans with (1 := L).
  apply Rle_lt_trans with (S - G - G)%R; [now apply Rplus_le_compat_r |].
  apply Rlt_trans with (S - G)%R.
  - rewrite <- (Rminus_0_r (S - G)) at 2. now apply Rplus_lt_compat_l, Ropp_lt_contravar.
  - rewrite <- (Rminus_0_r S) at 2. now apply Rplus_lt_compat_l, Ropp_lt_contravar.
Qed.

Lemma selected_keys : selected S keys
  = map (fun j => Build_key (scores j) (row j)) (selected_positions p h states i).
Proof.
  unfold selected, keys, selected_positions.
  assert (E : forall l, (forall j, In j l -> (j < length states)%nat) ->
    filter (best S) (map (fun j => Build_key (scores j) (row j)) l)
    = map (fun j => Build_key (scores j) (row j)) (filter (selects p h states i) l)).
  { induction l as [| j l IH]; intros B; simpl; auto.
    assert (J : (j < length states)%nat) by (apply B; now left).
    specialize (scored j J). rewrite IH by (intros; apply B; now right).
    unfold best at 1. simpl. destruct (selects p h states i j); simpl.
    - rewrite scored, Req_bool_true by auto. reflexivity.
    - destruct (scores j) as [s |]; auto. rewrite Req_bool_false by now apply S_above. reflexivity. }
  apply E. intros j J. apply in_seq in J. lia.
Qed.

Lemma keys_told_apart : Forall (told_apart S N G) keys.
Proof.
  unfold keys. rewrite Forall_forall. intros k I. apply in_map_iff in I. destruct I as (j & <- & J).
  apply in_seq in J. specialize (scored j ltac:(lia)). unfold told_apart. simpl.
  destruct (selects p h states i j); [rewrite scored; now left |].
  destruct (scores j); auto.
Qed.

Lemma keys_whole : Forall (fun k => whole (value k)) (null_key :: keys).
Proof.
  constructor; [exact whole_null |]. unfold keys. rewrite Forall_forall. intros k I.
  apply in_map_iff in I. destruct I as (j & <- & J). apply in_seq in J. apply whole_rows. lia.
Qed.

(** Exactly one position: its value. *)

Theorem selecting_head_agrees : forall j out, selected_positions p h states i = [j] ->
  (Rabs (row j) <= bpow radix2 prec)%R ->
  attends prec emin rnd ex S (null_key :: keys) out -> out = row j.
Proof.
  intros j out E B At.
  pose proof selected_keys as K. rewrite E in K. simpl in K.
  rewrite (null_key_matched prec emin prec_gt_0 emin_le rnd valid_rnd ex Hex S N G null_key keys out); auto.
  - rewrite K. unfold values, count. simpl. rewrite Rplus_0_r. unfold Rdiv. rewrite Rinv_1, Rmult_1_r.
    apply (kept prec 0); auto.
    + unfold Prec_gt_0 in prec_gt_0. lia.
    + apply FLT_keeps; auto. unfold Prec_gt_0 in prec_gt_0. lia.
    + assert (I : In j (selected_positions p h states i)) by (rewrite E; now left).
      apply filter_In in I. destruct I as [I _]. apply in_seq in I. apply whole_rows. lia.
    + now rewrite Z.add_0_r.
  - apply keys_told_apart.
  - apply keys_whole.
  - rewrite K. unfold values. simpl. now rewrite Rplus_0_r.
  - rewrite K. unfold count. simpl. change 1%R with (bpow radix2 0). apply bpow_le.
    unfold Prec_gt_0 in prec_gt_0. lia.
Qed.

(** No position: the null value. *)

Theorem empty_head_agrees : forall out, selected_positions p h states i = [] ->
  (Rabs null <= bpow radix2 prec)%R ->
  attends prec emin rnd ex N (null_key :: keys) out -> out = null.
Proof.
  intros out E B At. pose proof selected_keys as K. rewrite E in K. simpl in K.
  apply (null_key_unmatched prec emin prec_gt_0 emin_le rnd valid_rnd ex Hex S N G null_key keys out); auto.
  - apply keys_told_apart.
  - apply keys_whole.
Qed.

(** Several: the average of the selected rows, rounded once. *)

Theorem averaging_head_agrees : forall out, selected_positions p h states i <> [] ->
  (size (map row (selected_positions p h states i)) <= bpow radix2 prec)%R ->
  (INR (length (selected_positions p h states i)) <= bpow radix2 prec)%R ->
  attends prec emin rnd ex S (null_key :: keys) out ->
  out = rounded (total (map row (selected_positions p h states i))
                 / INR (length (selected_positions p h states i))).
Proof.
  intros out E Bs Bc At. pose proof selected_keys as K.
  assert (V : values (selected S keys) = map row (selected_positions p h states i)).
  { rewrite K. unfold values. now rewrite map_map. }
  assert (C : count (selected S keys) = INR (length (selected_positions p h states i))).
  { rewrite K. unfold count. now rewrite map_length. }
  rewrite <- V in Bs |- *. rewrite <- C in Bc |- *.
  apply (null_key_matched prec emin prec_gt_0 emin_le rnd valid_rnd ex Hex S N G null_key keys out); auto.
  - apply keys_told_apart.
  - apply keys_whole.
Qed.

End Selecting.
