(** * Lemma 7, second part: from rows of weights to the walk, and heads

    Informal statement.  The rows of an MLP block and the residual dimensions that each value of each variable switches
    on give the tables that the walk (Walk.v) reads: what a unit's row adds up to on a residual vector is its bias plus
    one entry for each variable; an undefined head adds nothing, or an average of its values' entries.  A head's scores
    are the products of what query and key rows add up to, plus the score of the offset: selected positions have the
    best score, all others stay below the null key by the gap, for all values of all variables that are read.

    Where it is used.  [recheck_variable] and [recheck_head] are extracted (Extract.v) and called by recheck.ml on the
    text that export.py writes from a saved network; kleene/checker.py proves the same ([prove_updates],
    [prove_hard_attention], [prove_clearing]). *)

From Coq Require Import ZArith Reals List Lia Lra Bool.
From Kleene Require Import Thresholds Walk.
Import ListNotations.

Local Open Scope Z_scope.

(** ** Rows *)

Definition row := list (nat * Z). (* residual dimension, weight *)

Fixpoint times (d : nat) (dims : list nat) : Z :=
  match dims with
  | [] => 0
  | e :: dims => (if Nat.eqb d e then 1 else 0) + times d dims
  end.

Definition dot_row (r : row) (x : nat -> Z) : Z := fold_right (fun '(d, w) s => w * x d + s) 0 r.

(** What a row adds up to where exactly these dimensions are on. *)
Definition entry (r : row) (dims : list nat) : Z := dot_row r (fun d => times d dims).

Record raw_unit := { reads : row; bias : Z; writes : row }.

Record raw_atom := {
  values_on : list (list nat);  (* for each value, the dimensions that it switches on *)
  head : option bool            (* a head; true: where it is undefined it may hold a rounded average *)
}.

(** Forms: a constant, and for each variable a table, empty where it is not mentioned. *)
Definition raw_form := (Z * list (list Z))%type.

Record raw_update := {
  guard : list (raw_form * list Z);
  form : raw_form;
  table : list (Z * Z);
  only_reads : bool
}.

Record raw_block := {
  first_half : list raw_unit;
  second_half : list raw_unit;
  atoms : list raw_atom;
  idle : list nat               (* dimensions that are zero in this block *)
}.

Definition no_atom : raw_atom := {| values_on := []; head := None |}.

Definition average (r : row) (a : raw_atom) : ival :=
  let entries := map (entry r) (values_on a) in
  let l := fold_right Z.min 0 entries in
  let h := fold_right Z.max 0 entries in
  if (l =? 0) && (h =? 0) then zero else (l, h, true).

Definition exactly (r : row) (dims : list nat) : ival := let e := entry r dims in (e, e, false).

Definition asked (k : nat) (v : nat) (f : raw_form) : option Z :=
  match nth k (snd f) [] with
  | [] => None
  | t => Some (nth v t 0)
  end.

Definition cells_of (b : raw_block) (us1 us2 : list raw_unit) (ups : list raw_update) (own_atom k : nat) : list cell :=
  let a := nth k (atoms b) no_atom in
  let asks_at v := map (fun u => (map (fun t => asked k v (fst t)) (guard u), asked k v (form u))) ups in
  let value v dims :=
    {| into1 := map (fun u => exactly (reads u) dims) us1; into2 := map (fun u => exactly (reads u) dims) us2;
       asks := asks_at v; undefined := false; own := if Nat.eqb k own_atom then Some (Z.of_nat v) else None |} in
  let none average_of :=
    {| into1 := map (fun u => average_of (reads u)) us1; into2 := map (fun u => average_of (reads u)) us2;
       asks := asks_at O; undefined := true; own := None |} in
  map (fun '(v, dims) => value v dims) (combine (seq 0 (length (values_on a))) (values_on a))
  ++ match head a with
     | None => []
     | Some false => [none (fun _ => zero)]
     | Some true => [none (fun r => average r a)]
     end.

Definition passed_on (us1 : list raw_unit) (u : raw_unit) : list (nat * Z) :=
  filter (fun '(_, w) => negb (w =? 0))
    (map (fun '(k, v) => (k, dot_row (reads u) (fun d => dot_row (writes v) (fun e => if Nat.eqb d e then 1 else 0))))
       (combine (seq 0 (length us1)) us1)).

Definition blurs_unit (b : raw_block) (order : list nat) (u : raw_unit) : bool :=
  existsb (fun k => match head (nth k (atoms b) no_atom) with
                    | Some true => let '(_, _, f) := average (reads u) (nth k (atoms b) no_atom) in f
                    | _ => false
                    end) order.

Definition overlap (r : row) (dims : list nat) : bool :=
  existsb (fun '(d, w) => negb (w =? 0) && existsb (Nat.eqb d) dims) r.

Definition second_of (b : raw_block) (dims : list nat) : list raw_unit :=
  filter (fun u => overlap (writes u) dims) (second_half b).

Definition first_of (b : raw_block) (us2 : list raw_unit) : list raw_unit :=
  filter (fun u => existsb (fun v => overlap (reads v) (map fst (writes u))) us2) (first_half b).

Definition own_dims (b : raw_block) (own_atom : nat) : list nat :=
  map (fun dims => hd O dims) (values_on (nth own_atom (atoms b) no_atom)).

Definition problem_of (b : raw_block) (order : list nat) (own_atom : nat) (ups : list raw_update) : problem :=
  let dims := own_dims b own_atom in
  let us2 := second_of b dims in
  let us1 := first_of b us2 in
  {| size := length dims;
     biases1 := map (fun u => (bias u, bias u, false)) us1;
     biases2 := map (fun u => (bias u, bias u, false)) us2;
     rough := map (blurs_unit b order) us1;
     units := map (fun u => {| through := passed_on us1 u;
                               column := map (fun d => dot_row (writes u) (fun e => if Nat.eqb d e then 1 else 0)) dims |}) us2;
     updates := map (fun u => {| allowed := map snd (guard u); results := table u; reading := only_reads u |}) ups;
     begins := map (fun u => (map (fun t => TSum (fst (fst t))) (guard u), Some (fst (form u)), false)) ups;
     variables := map (cells_of b us1 us2 ups own_atom) order |}.

(** The order names the variable itself, and every variable that rows or updates read; rows read nothing else. *)

Definition all_dims (b : raw_block) (order : list nat) : list nat :=
  flat_map (fun k => concat (values_on (nth k (atoms b) no_atom))) order.

Definition covered (b : raw_block) (order : list nat) (scratch : list nat) (u : raw_unit) : bool :=
  forallb (fun '(d, w) => (w =? 0) || existsb (Nat.eqb d) (all_dims b order) || existsb (Nat.eqb d) scratch
                          || existsb (Nat.eqb d) (idle b)) (reads u).

Definition mentions_only (order : list nat) (f : raw_form) : bool :=
  forallb (fun '(k, t) => match t with [] => true | _ => existsb (Nat.eqb k) order end)
    (combine (seq 0 (length (snd f))) (snd f)).

Definition one_hot (b : raw_block) (own_atom : nat) : bool :=
  forallb (fun dims => Nat.eqb (length dims) 1) (values_on (nth own_atom (atoms b) no_atom)).

Definition fits (b : raw_block) (order : list nat) (own_atom : nat) (ups : list raw_update) : bool :=
  let us2 := second_of b (own_dims b own_atom) in
  let us1 := first_of b us2 in
  let scratch := flat_map (fun u => map fst (writes u)) us1 in
  one_hot b own_atom && existsb (Nat.eqb own_atom) order
  && forallb (covered b order []) us1 && forallb (covered b order scratch) us2
  && forallb (fun u => mentions_only order (form u) && forallb (fun t => mentions_only order (fst t)) (guard u)) ups
  && negb (existsb (fun d => existsb (Nat.eqb d) (all_dims b order)) scratch).

Definition recheck_variable (b : raw_block) (order : list nat) (own_atom : nat) (ups : list raw_update) : bool :=
  fits b order own_atom ups && check_variable (problem_of b order own_atom ups).

Theorem recheck_variable_sound : forall b order own_atom ups, recheck_variable b order own_atom ups = true ->
  correct (problem_of b order own_atom ups).
Proof.
  intros b order own_atom ups H. apply andb_true_iff in H. now apply check_variable_sound.
Qed.

(** ** The tables are what rows add up to *)

Lemma dot_row_plus : forall r x y, dot_row r (fun d => x d + y d) = dot_row r x + dot_row r y.
Proof. induction r as [| [d w] r IH]; simpl; intros; [lia | rewrite IH; lia]. Qed.

Lemma dot_row_ext : forall r x y, (forall d, x d = y d) -> dot_row r x = dot_row r y.
Proof. induction r as [| [d w] r IH]; simpl; intros x y H; auto. rewrite H, (IH x y) by auto. reflexivity. Qed.

(** The residual vector of a choice of values: which dimensions are on. *)
Definition residual (chosen : list (list nat)) (d : nat) : Z := fold_right (fun dims s => times d dims + s) 0 chosen.

Theorem entries_are_dot_product : forall r chosen,
  fold_right (fun dims s => entry r dims + s) 0 chosen = dot_row r (residual chosen).
Proof.
  intros r chosen. induction chosen as [| dims chosen IH]; simpl.
  - unfold residual. simpl. induction r as [| [d w] r IHr]; simpl; auto. rewrite <- IHr. lia.
  - rewrite IH. unfold entry. rewrite <- dot_row_plus. apply dot_row_ext. reflexivity.
Qed.

(** Along a path of values, a unit's interval is its bias plus the dot product of its row and the residual vector. *)

Theorem sums_are_dot_products : forall us chosen v k u,
  nth_error us k = Some u ->
  nth_error v k = Some (bias u, bias u, false) ->
  at_ (fold_left (fun v dims => addv v (map (fun u => exactly (reads u) dims) us)) chosen v) k
  = (bias u + dot_row (reads u) (residual chosen), bias u + dot_row (reads u) (residual chosen), false).
Proof.
  intros us chosen v k u U V. rewrite <- entries_are_dot_product.
  assert (G : forall l v e, at_ v k = (e, e, false) ->
    at_ (fold_left (fun v dims => addv v (map (fun u => exactly (reads u) dims) us)) l v) k
    = (e + fold_right (fun dims s => entry (reads u) dims + s) 0 l,
       e + fold_right (fun dims s => entry (reads u) dims + s) 0 l, false)).
  { induction l as [| dims l IH]; intros v0 e E; simpl.
    - rewrite E. now rewrite Z.add_0_r.
    - rewrite (IH _ (e + entry (reads u) dims)).
      + rewrite Z.add_assoc. reflexivity.
      + rewrite at_addv, E. unfold at_ at 1.
        assert (N : nth_error (map (fun u => exactly (reads u) dims) us) k = Some (exactly (reads u) dims))
          by exact (map_nth_error (fun u => exactly (reads u) dims) k us U).
        rewrite (nth_error_nth _ _ zero N). reflexivity. }
  apply G. unfold at_. now apply nth_error_nth.
Qed.

(** An average of values, with parts that add up to at most 1, stays in the interval of an undefined head. *)

Theorem average_inside : forall r a (parts : list R), length parts = length (values_on a) ->
  Forall (fun x => (0 <= x)%R) parts -> (fold_right Rplus 0 parts <= 1)%R ->
  let s := fold_right Rplus 0%R (map (fun '(x, dims) => (x * IZR (entry r dims))%R) (combine parts (values_on a))) in
  let '(l, h, _) := average r a in (IZR l <= s <= IZR h)%R.
Proof.
  intros r a parts L P S.
  assert (G : forall vals parts, length parts = length vals -> Forall (fun x => (0 <= x)%R) parts ->
    forall l h, l <= fold_right Z.min 0 (map (entry r) vals) -> fold_right Z.max 0 (map (entry r) vals) <= h ->
    (IZR l * fold_right Rplus 0 parts
     <= fold_right Rplus 0 (map (fun '(x, dims) => (x * IZR (entry r dims))%R) (combine parts vals))
     <= IZR h * fold_right Rplus 0 parts)%R).
  { induction vals as [| dims vals IH]; intros [| x ps] Ln Ps l h Hl Hh; simpl in *; try discriminate; try lra.
    inversion Ps; subst. specialize (IH ps ltac:(lia) H2 l h ltac:(lia) ltac:(lia)).
    assert (l <= entry r dims <= h) as [E1 E2] by lia. apply IZR_le in E1. apply IZR_le in E2. nra. }
  assert (N : forall f z l, f = Z.min -> (z <= 0) -> fold_right f z l <= 0).
  { intros f z l -> Z. induction l; simpl; lia. }
  assert (M : forall l, 0 <= fold_right Z.max 0 l) by (induction l; simpl; lia).
  assert (Q : (0 <= fold_right Rplus 0 parts)%R).
  { clear - P. induction P; simpl; lra. }
  unfold average.
  set (lo := fold_right Z.min 0 (map (entry r) (values_on a))).
  set (hi := fold_right Z.max 0 (map (entry r) (values_on a))).
  specialize (G (values_on a) parts L P lo hi (Z.le_refl _) (Z.le_refl _)).
  assert (B1 : lo <= 0) by (apply N; auto; lia). assert (B2 : 0 <= hi) by apply M.
  apply IZR_le in B1. apply IZR_le in B2.
  assert (B : (IZR lo <= fold_right Rplus 0 (map (fun '(x, dims) => (x * IZR (entry r dims))%R) (combine parts (values_on a))) <= IZR hi)%R)
    by nra.
  destruct ((lo =? 0) && (hi =? 0)) eqn:E; [| exact B].
  apply andb_true_iff in E. destruct E as [E1 E2]. apply Z.eqb_eq in E1. apply Z.eqb_eq in E2.
  rewrite E1, E2 in B. exact B.
Qed.

(** ** Heads *)

Record side := {
  places : list (row * Z);             (* rows and biases of a query or a key *)
  of_atoms : list (list (list nat));   (* the variables that they read: dimensions for each value *)
  limited : list (nat * nat)           (* which value a variable must have *)
}.

Record raw_head := {
  asking : side;
  offered : side;
  matched : option (nat * nat * list (list nat)); (* query and key variable; for each query, the keys that match *)
  distances : list (Z * bool);         (* the score of each offset, and whether it is allowed *)
  null : Z
}.

Fixpoint combinations (l : list (list (list nat))) : list (list nat) :=
  match l with
  | [] => [[]]
  | vals :: l => flat_map (fun v => map (cons v) (combinations l)) (seq 0 (length vals))
  end.

Definition chosen_dims (s : side) (vs : list nat) : list (list nat) :=
  map (fun '(v, vals) => nth v vals []) (combine vs (of_atoms s)).

Definition at_places (s : side) (vs : list nat) : list Z :=
  let x := residual (chosen_dims s vs) in map (fun '(r, b) => b + dot_row r x) (places s).

Definition meets (s : side) (vs : list nat) : bool := forallb (fun '(k, v) => Nat.eqb (nth k vs O) v) (limited s).

Definition matching (h : raw_head) (q k : list nat) : bool :=
  match matched h with
  | None => true
  | Some (i, j, table) => existsb (Nat.eqb (nth j k O)) (nth (nth i q O) table [])
  end.

Fixpoint inner (a b : list Z) : Z :=
  match a, b with
  | x :: a, y :: b => x * y + inner a b
  | _, _ => 0
  end.

Definition head_covered (s : side) : bool :=
  forallb (fun '(r, _) => forallb (fun '(d, w) => (w =? 0) || existsb (Nat.eqb d) (concat (concat (of_atoms s)))) r)
    (places s).

Definition recheck_head (best gap : Z) (h : raw_head) : bool :=
  let qs := map (fun q => (q, meets (asking h) q, at_places (asking h) q)) (combinations (of_atoms (asking h))) in
  let ks := map (fun k => (k, meets (offered h) k, at_places (offered h) k)) (combinations (of_atoms (offered h))) in
  head_covered (asking h) && head_covered (offered h) && (null h <=? best - gap)
  && forallb (fun '(q, mq, xq) =>
       forallb (fun '(k, mk, xk) =>
         let m := mq && mk && matching h q k in
         let s := inner xq xk in
         forallb (fun '(d, ok) => if m && ok then s + d =? best else s + d <=? null h - gap) (distances h)) ks) qs.

(** What [selecting_head_agrees] (Composition.v) asks of the scores. *)

Theorem recheck_head_sound : forall best gap h, recheck_head best gap h = true ->
  null h <= best - gap /\
  forall q k d ok, In q (combinations (of_atoms (asking h))) -> In k (combinations (of_atoms (offered h))) ->
  In (d, ok) (distances h) ->
  let score := inner (at_places (asking h) q) (at_places (offered h) k) + d in
  if meets (asking h) q && meets (offered h) k && matching h q k && ok then score = best else score <= null h - gap.
Proof.
  intros best gap h H. unfold recheck_head in H. rewrite !andb_true_iff in H. destruct H as [[_ N] H].
  split; [now apply Z.leb_le |]. intros q k d ok Q K D.
  rewrite forallb_forall in H.
  specialize (H _ (in_map (fun q => (q, meets (asking h) q, at_places (asking h) q)) _ _ Q)). simpl in H.
  rewrite forallb_forall in H.
  specialize (H _ (in_map (fun k => (k, meets (offered h) k, at_places (offered h) k)) _ _ K)). simpl in H.
  rewrite forallb_forall in H. specialize (H _ D). simpl in H.
  destruct (meets (asking h) q && meets (offered h) k && matching h q k && ok).
  - now apply Z.eqb_eq in H.
  - now apply Z.leb_le in H.
Qed.

Theorem every_combination : forall l vs, Forall2 (fun v vals => (v < length vals)%nat) vs l -> In vs (combinations l).
Proof.
  intros l vs H. induction H as [| v vals vs l Hv H IH]; simpl; auto.
  apply in_flat_map. exists v. split; [apply in_seq; lia | now apply in_map].
Qed.

(** ** Clearing: heads and scratch values are zero again after the block *)

Definition touches (d : nat) (u : raw_unit) : bool := existsb (fun '(e, w) => Nat.eqb d e && negb (w =? 0)) (writes u).

Definition clears (d : nat) (u : raw_unit) : bool :=
  match reads u, writes u with
  | [(e, w)], [(e', w')] => Nat.eqb d e && (w =? 1) && Nat.eqb d e' && (w' =? -1) && (bias u =? 0)
  | _, _ => false
  end.

Definition cleared (b : raw_block) (d : nat) : bool :=
  match filter (touches d) (second_half b) with
  | [u] => clears d u
  | _ => false
  end.

Definition recheck_clearing (b : raw_block) (dims scratch : list nat) : bool :=
  forallb (cleared b) dims
  && forallb (fun u => forallb (fun '(d, w) => (w =? 0) || existsb (Nat.eqb d) scratch) (writes u)) (first_half b).

Local Open Scope R_scope.

Definition dot_real (r : row) (x : nat -> R) : R := fold_right (fun '(d, w) s => IZR w * x d + s) 0 r.

(** A half of the block: x + B · clip(A · x + b). *)
Definition after_half (us : list raw_unit) (x : nat -> R) (d : nat) : R :=
  x d + fold_right (fun u s => dot_real (writes u) (fun e => if Nat.eqb d e then 1 else 0)
                               * clip (IZR (bias u) + dot_real (reads u) x) + s) 0 us.

Lemma untouched : forall d r, existsb (fun '(e, w) => Nat.eqb d e && negb (w =? 0)%Z) r = false ->
  dot_real r (fun e => if Nat.eqb d e then 1 else 0) = 0.
Proof.
  induction r as [| [e w] r IH]; simpl; auto. intros H. apply orb_false_iff in H. destruct H as [H1 H2].
  rewrite IH by auto. destruct (Nat.eqb d e); simpl in H1; [| lra].
  apply negb_false_iff, Z.eqb_eq in H1. subst. lra.
Qed.

Theorem cleared_sound : forall b d x, cleared b d = true -> 0 <= x d <= 1 -> after_half (second_half b) x d = 0.
Proof.
  intros b d x C B. unfold cleared in C. unfold after_half.
  assert (F : forall us, fold_right (fun u s => dot_real (writes u) (fun e => if Nat.eqb d e then 1 else 0)
      * clip (IZR (bias u) + dot_real (reads u) x) + s) 0 us
    = fold_right (fun u s => dot_real (writes u) (fun e => if Nat.eqb d e then 1 else 0)
      * clip (IZR (bias u) + dot_real (reads u) x) + s) 0 (filter (touches d) us)).
  { induction us as [| u us IH]; simpl; auto. destruct (touches d u) eqn:T; simpl; rewrite IH; auto.
    rewrite (untouched d (writes u) T). lra. }
  rewrite F. destruct (filter (touches d) (second_half b)) as [| u [| v l]]; try discriminate.
  unfold clears in C. destruct (reads u) as [| [e w] [| ? ?]] eqn:R; try discriminate.
  destruct (writes u) as [| [e' w'] [| ? ?]] eqn:W; try discriminate.
  rewrite !andb_true_iff, !Nat.eqb_eq, !Z.eqb_eq in C. destruct C as [[[[<- ->] <-] ->] Bi].
  simpl. rewrite R, W, Bi. simpl. rewrite Nat.eqb_refl.
  replace (0 + (1 * x d + 0)) with (x d) by lra. pose proof (clear_unit_interval (x d) B). lra.
Qed.

Theorem recheck_clearing_sound : forall b dims scratch, recheck_clearing b dims scratch = true ->
  forall x d, In d dims -> 0 <= x d <= 1 -> after_half (second_half b) x d = 0.
Proof.
  intros b dims scratch H x d I B. apply andb_true_iff in H. destruct H as [H _].
  rewrite forallb_forall in H. now apply cleared_sound; auto.
Qed.

Theorem first_half_writes_scratch : forall b dims scratch, recheck_clearing b dims scratch = true ->
  forall x d, ~ In d scratch -> after_half (first_half b) x d = x d.
Proof.
  intros b dims scratch H x d N. apply andb_true_iff in H. destruct H as [_ H]. unfold after_half.
  assert (Z : forall us, forallb (fun u => forallb (fun '(d, w) => (w =? 0)%Z || existsb (Nat.eqb d) scratch) (writes u)) us = true ->
    fold_right (fun u s => dot_real (writes u) (fun e => if Nat.eqb d e then 1 else 0)
      * clip (IZR (bias u) + dot_real (reads u) x) + s) 0 us = 0).
  { induction us as [| u us IH]; simpl; intros K; auto. apply andb_true_iff in K. destruct K as [K1 K2].
    rewrite IH by auto. rewrite untouched; [lra |].
    destruct (existsb (fun '(e, w) => Nat.eqb d e && negb (w =? 0)%Z) (writes u)) eqn:E; auto. exfalso.
    apply existsb_exists in E. destruct E as ([e w] & I & E). apply andb_true_iff in E. destruct E as [E1 E2].
    apply Nat.eqb_eq in E1. subst e. rewrite forallb_forall in K1. specialize (K1 _ I). simpl in K1.
    destruct (w =? 0)%Z; [discriminate |]. simpl in K1. apply existsb_exists in K1. destruct K1 as (f & J & Q).
    apply Nat.eqb_eq in Q. now subst. }
  rewrite Z by auto. lra.
Qed.
