(** * Lemma 7. The core walk: two functions compared by partial sums

    Informal statement.  Walk through the variables one after the other, keep what still matters of both sides (sums
    of units and of forms so far, each as an interval where a head may be undefined), decide units and tests as soon as
    the variables that are left cannot change them, and keep equal states once.  If all states that are left at the end
    agree, then for *every* choice of values the units of the MLP block turn the old one-hot into the one-hot of the
    value that the guarded updates ask for, whatever an undefined head holds, unless the program reads an undefined
    head there.

    Where it is used.  [check_variable] is extracted to OCaml (Extract.v, recheck.ml) and re-checks categorical MLP
    blocks from an export of the saved tensors.  It is the walk of lowering/functions.py and decompilers/weights.py;
    kleene/checker.py proves the same statement by splitting boxes ([prove_updates]), and walks bits so ([Bits]). *)

From Coq Require Import ZArith Reals List Lia Lra Bool.
From Flocq Require Import Core.
From Kleene Require Import Thresholds.
Import ListNotations.

Local Open Scope Z_scope.

(** ** The walk itself, for any kind of state *)

Section Walk.

Variables State Choice : Type.
Variable eqb : State -> State -> bool.
Hypothesis eqb_sound : forall a b, eqb a b = true -> a = b.
Variable hash : State -> Z.

(** A search tree that keeps equal states once.  Nothing is asked of [hash]. *)

Inductive tree := Leaf | Node (l : tree) (h : Z) (s : State) (r : tree).

Fixpoint insert (h : Z) (s : State) (t : tree) : tree :=
  match t with
  | Leaf => Node Leaf h s Leaf
  | Node l h' s' r =>
      match h ?= h' with
      | Lt => Node (insert h s l) h' s' r
      | Gt => Node l h' s' (insert h s r)
      | Eq => if eqb s s' then t else Node l h' s' (insert h s r)
      end
  end.

Fixpoint inside (x : State) (t : tree) : Prop :=
  match t with
  | Leaf => False
  | Node l _ s r => s = x \/ inside x l \/ inside x r
  end.

Lemma insert_new : forall t h s, inside s (insert h s t).
Proof.
  induction t as [| l IHl h' s' r IHr]; simpl; intros h s; auto.
  destruct (h ?= h'); simpl; auto.
  destruct (eqb s s') eqn:E; simpl; auto. apply eqb_sound in E. auto.
Qed.

Lemma insert_old : forall t h s x, inside x t -> inside x (insert h s t).
Proof.
  induction t as [| l IHl h' s' r IHr]; simpl; intros h s x H; [contradiction |].
  destruct (h ?= h'); simpl.
  - destruct (eqb s s'); simpl; destruct H as [H | [H | H]]; auto.
  - destruct H as [H | [H | H]]; auto.
  - destruct H as [H | [H | H]]; auto.
Qed.

Fixpoint elements (t : tree) (others : list State) : list State :=
  match t with
  | Leaf => others
  | Node l _ s r => elements l (s :: elements r others)
  end.

Lemma elements_others : forall t x others, In x others -> In x (elements t others).
Proof. induction t; simpl; auto. intros. apply IHt1. right. auto. Qed.

Lemma elements_inside : forall t x others, inside x t -> In x (elements t others).
Proof.
  induction t as [| l IHl h s r IHr]; simpl; intros x others H; [contradiction |].
  destruct H as [H | [H | H]].
  - apply elements_others. now left.
  - now apply IHl.
  - apply elements_others. right. now apply IHr.
Qed.

Record level := { options : list Choice; next : State -> Choice -> State }.

Definition step_one (v : level) (t : tree) (s : State) : tree :=
  fold_left (fun t c => let n := next v s c in insert (hash n) n t) (options v) t.

Definition step_all (v : level) (states : list State) : list State :=
  elements (fold_left (step_one v) states Leaf) [].

Fixpoint walk (final : State -> bool) (levels : list level) (states : list State) : bool :=
  match levels with
  | [] => forallb final states
  | v :: levels => walk final levels (step_all v states)
  end.

Fixpoint follow (levels : list level) (path : list Choice) (s : State) : State :=
  match levels, path with
  | v :: levels, c :: path => follow levels path (next v s c)
  | _, _ => s
  end.

Lemma step_one_old : forall v s t x, inside x t -> inside x (step_one v t s).
Proof.
  intros v s. unfold step_one. induction (options v) as [| c l IH]; simpl; auto.
  intros t x H. apply IH. now apply insert_old.
Qed.

Lemma step_one_new : forall v s c t, In c (options v) -> inside (next v s c) (step_one v t s).
Proof.
  intros v s c. unfold step_one. induction (options v) as [| d l IH]; simpl; intros t I; [contradiction |].
  destruct I as [-> | I]; auto.
  assert (G : forall l t, inside (next v s c) t ->
    inside (next v s c) (fold_left (fun t c => insert (hash (next v s c)) (next v s c) t) l t)).
  { induction l0 as [| e l0 IH']; simpl; auto. intros u H. apply IH'. now apply insert_old. }
  apply G. apply insert_new.
Qed.

Lemma step_all_keeps : forall v states s c, In s states -> In c (options v) -> In (next v s c) (step_all v states).
Proof.
  intros v states s c I J. unfold step_all. apply elements_inside.
  assert (O : forall l t x, inside x t -> inside x (fold_left (step_one v) l t)).
  { induction l as [| a l IH]; simpl; auto. intros t x H. apply IH. now apply step_one_old. }
  generalize Leaf. induction states as [| a l IH]; simpl; intros t; [contradiction |].
  destruct I as [-> | I]; auto. apply O. now apply step_one_new.
Qed.

Theorem walk_sound : forall final levels states, walk final levels states = true ->
  forall s path, In s states -> Forall2 (fun v c => In c (options v)) levels path ->
  final (follow levels path s) = true.
Proof.
  intros final levels. induction levels as [| v levels IH]; simpl; intros states W s path I P.
  - rewrite forallb_forall in W. inversion P; subst. simpl. auto.
  - inversion P as [| v' c levels' path' Hc P']; subst. simpl.
    apply (IH (step_all v states)); auto. now apply step_all_keeps.
Qed.

End Walk.

(** ** Intervals of sums *)

Definition ival := (Z * Z * bool)%type. (* least, most, and whether a rounded average may blur the sum *)
Definition zero : ival := (0, 0, false).

Definition addi (a b : ival) : ival :=
  let '(l, h, f) := a in let '(l', h', f') := b in (l + l', h + h', f || f').

Definition hull (a b : ival) : ival :=
  let '(l, h, f) := a in let '(l', h', f') := b in (Z.min l l', Z.max h h', f || f').

(** A blurred sum keeps a distance of one whole unit (lemma 2, [rough_unit_is_silent]). *)
Definition slack (f : bool) : Z := if f then 1 else 0.

Definition contains (a b : ival) : Prop :=
  let '(l, h, f) := a in let '(l', h', f') := b in l <= l' /\ h' <= h /\ (f' = true -> f = true).

Lemma contains_refl : forall a, contains a a.
Proof. intros [[l h] f]. simpl. repeat split; auto; lia. Qed.

Lemma contains_trans : forall a b c, contains a b -> contains b c -> contains a c.
Proof. intros [[l h] f] [[l' h'] f'] [[l'' h''] f'']. simpl. intuition lia. Qed.

Lemma contains_addi : forall a b c d, contains a b -> contains c d -> contains (addi a c) (addi b d).
Proof.
  intros [[l h] f] [[l' h'] f'] [[l1 h1] f1] [[l2 h2] f2]. simpl. intros (A & B & C) (D & E & F).
  repeat split; try lia. rewrite !orb_true_iff. intuition.
Qed.

Lemma contains_hull : forall a b c, contains a c \/ contains b c -> contains (hull a b) c.
Proof.
  intros [[l h] f] [[l' h'] f'] [[l'' h''] f'']. simpl. rewrite orb_true_iff. intuition lia.
Qed.

Lemma addi_assoc : forall a b c, addi a (addi b c) = addi (addi a b) c.
Proof.
  intros [[l h] f] [[l' h'] f'] [[l'' h''] f'']. simpl. rewrite !Z.add_assoc, orb_assoc. reflexivity.
Qed.

Lemma addi_zero : forall a, addi a zero = a.
Proof. intros [[l h] f]. simpl. now rewrite !Z.add_0_r, orb_false_r. Qed.

Lemma zero_addi : forall a, addi zero a = a.
Proof. intros [[l h] f]. reflexivity. Qed.

(** Vectors of intervals, one for each unit; what is not there is zero. *)

Definition vector := list ival.
Definition at_ (v : vector) (k : nat) : ival := nth k v zero.

Fixpoint zip (f : ival -> ival -> ival) (a b : vector) : vector :=
  match a, b with
  | [], b => map (f zero) b
  | a, [] => map (fun x => f x zero) a
  | x :: a, y :: b => f x y :: zip f a b
  end.

Lemma at_zip : forall f a b k, f zero zero = zero -> at_ (zip f a b) k = f (at_ a k) (at_ b k).
Proof.
  intros f a b k Z. unfold at_. revert b k. induction a as [| x a IH]; intros b k.
  - simpl zip. destruct (Nat.lt_ge_cases k (length b)) as [L | L].
    + rewrite (nth_indep _ zero (f zero zero)) by now rewrite map_length.
      rewrite map_nth. now destruct k.
    + rewrite (nth_overflow (map (f zero) b)) by now rewrite map_length.
      rewrite (nth_overflow b) by auto. now destruct k.
  - destruct b as [| y b].
    + change (zip f (x :: a) []) with (map (fun x => f x zero) (x :: a)).
      assert (E : nth k (@nil ival) zero = zero) by now destruct k. rewrite E.
      destruct (Nat.lt_ge_cases k (length (x :: a))) as [L | L].
      * rewrite (nth_indep _ zero (f zero zero)) by now rewrite map_length.
        exact (map_nth (fun x => f x zero) (x :: a) zero k).
      * rewrite (nth_overflow (map _ _)) by now rewrite map_length.
        rewrite (nth_overflow (x :: a)) by auto. auto.
    + destruct k; simpl; auto.
Qed.

Definition addv := zip addi.
Definition hullv := zip hull.

Lemma at_addv : forall a b k, at_ (addv a b) k = addi (at_ a k) (at_ b k).
Proof. intros. now apply at_zip. Qed.

Lemma at_hullv : forall a b k, at_ (hullv a b) k = hull (at_ a k) (at_ b k).
Proof. intros. now apply at_zip. Qed.

(** ** The problem: what every value of every variable adds *)

Inductive tstat := TPass | TSpoiled | TSum (z : Z).

Record cell := {                       (* one value of one variable *)
  into1 : vector;                      (* what it adds to units of the first half *)
  into2 : vector;                      (* and of the second *)
  asks : list (list (option Z) * option Z); (* and to each update's tests and form; None: not mentioned *)
  undefined : bool;                    (* a head that selects nothing, or several positions *)
  own : option Z                       (* the old value, where it is the variable's own *)
}.

Record unit2 := {
  through : list (nat * Z);            (* weights of the first half's units, by way of scratch values *)
  column : list Z                      (* what the unit adds to the variable's dimensions *)
}.

Record update := {
  allowed : list (list Z);             (* for each test *)
  results : list (Z * Z);              (* value of the form → new value *)
  reading : bool                       (* it only says where [step] reads a head *)
}.

Definition want := (list tstat * option Z * bool)%type. (* tests, sum of the form, has met an undefined head *)

Record problem := {
  size : nat;                          (* of the variable *)
  biases1 : vector;
  biases2 : vector;
  rough : list bool;                   (* units of the first half that a rounded average may blur *)
  units : list unit2;
  updates : list update;
  begins : list want;
  variables : list (list cell)
}.

(** ** What the updates ask for, on a full choice of values *)

Definition addt (u : bool) (s : tstat) (c : option Z) : tstat :=
  match s, c with
  | TSum z, Some d => if u then TSpoiled else TSum (z + d)
  | _, _ => s
  end.

Definition addf (u : bool) (s c : option Z) : option Z :=
  match s, c with
  | Some z, Some d => if u then None else Some (z + d)
  | _, _ => s
  end.

Fixpoint addts (u : bool) (l : list tstat) (c : list (option Z)) : list tstat :=
  match l, c with
  | t :: l, d :: c => addt u t d :: addts u l c
  | l, _ => l
  end.

Definition mentions (c : list (option Z) * option Z) : bool :=
  existsb (fun d => match d with Some _ => true | None => false end) (snd c :: fst c).

Definition addw (u : bool) (w : want) (c : list (option Z) * option Z) : want :=
  let '(l, f, p) := w in (addts u l (fst c), addf u f (snd c), p || (u && mentions c)).

Fixpoint addws (u : bool) (ws : list want) (cs : list (list (option Z) * option Z)) : list want :=
  match ws, cs with
  | w :: ws, c :: cs => addw u w c :: addws u ws cs
  | ws, _ => ws
  end.

Definition mem (z : Z) (l : list Z) : bool := existsb (Z.eqb z) l.

Definition ok_test (t : tstat) (l : list Z) : bool :=
  match t with
  | TSum z => mem z l
  | _ => true
  end.

Fixpoint all_ok (tests : list tstat) (l : list (list Z)) : bool :=
  match tests with
  | [] => true
  | t :: tests => ok_test t (hd [] l) && all_ok tests (tl l)
  end.

Fixpoint assoc (z : Z) (l : list (Z * Z)) : option Z :=
  match l with
  | [] => None
  | (a, b) :: l => if a =? z then Some b else assoc z l
  end.

Inductive asked_for := Unread | Value (new : Z) | Bad.

Fixpoint scan (us : list update) (ws : list (option want)) : bool * list (option Z) :=
  match us, ws with
  | u :: us, w :: ws =>
      let '(p, l) := scan us ws in
      match w with
      | Some (tests, form, poisoned) =>
          if all_ok tests (allowed u)
          then (p || poisoned,
                if reading u then l
                else match form with Some z => assoc z (results u) | None => None end :: l)
          else (p, l)
      | None => (p, l)
      end
  | _, _ => (false, [])
  end.

(** Several updates at once, or a form without a result, are bad; no update leaves the old value. *)

Definition judge (us : list update) (ws : list (option want)) (old : Z) : asked_for :=
  let '(p, l) := scan us ws in
  if p then Unread
  else match l with
       | [] => Value old
       | [Some v] => Value v
       | _ => Bad
       end.

(** ** What the weights do, on a full choice of values *)

Definition sum1 (p : problem) (path : list cell) : vector := fold_left (fun v c => addv v (into1 c)) path (biases1 p).
Definition sum2 (p : problem) (path : list cell) : vector := fold_left (fun v c => addv v (into2 c)) path (biases2 p).
Definition wants (p : problem) (path : list cell) : list want :=
  fold_left (fun w c => addws (undefined c) w (asks c)) path (begins p).
Definition old_value (path : list cell) : Z :=
  fold_left (fun o c => match own c with Some k => k | None => o end) path (-1).

Local Open Scope R_scope.

Definition in_ival (y : R) (v : ival) : Prop :=
  let '(l, h, f) := v in IZR l - IZR (slack f) <= y <= IZR h + IZR (slack f).

(** A unit of the first half adds a = clip(y), for a sum y that its interval allows. *)
Definition active (a : R) (v : ival) : Prop := exists y, in_ival y v /\ a = clip y.

Definition weighted (w : list (nat * Z)) (a : nat -> R) : R :=
  fold_right (fun '(k, x) s => IZR x * a k + s) 0 w.

Definition crisp (w : list (nat * Z)) (a : nat -> R) : Prop :=
  forall k x, In (k, x) w -> x = 0%Z \/ a k = 0 \/ a k = 1.

(** A unit of the second half: its own interval, what the first half passes on, and an error of at most one unit,
    none where nothing is blurred and every value that is passed on is 0 or 1. *)
Definition active2 (y : R) (v : ival) (w : list (nat * Z)) (a : nat -> R) : Prop :=
  let '(l, h, f) := v in
  exists z e, IZR l <= z <= IZR h /\ y = z + weighted w a + e /\ Rabs e <= 1 /\ (f = false -> crisp w a -> e = 0).

Fixpoint added (k : nat) (us : list unit2) (b : nat -> R) : R :=
  match us with
  | [] => 0
  | u :: us => IZR (nth k (column u) 0%Z) * b O + added k us (fun i => b (S i))
  end.

Definition code (v : Z) (k : nat) : R := if (v =? Z.of_nat k)%Z then 1 else 0.

(** The statement: for every choice of values and everything that the units may be there, the weights change the
    code of the old value into the code of the value that is asked for. *)

Definition correct (p : problem) : Prop :=
  forall path, Forall2 (fun cells c => In c cells) (variables p) path ->
  forall a b y,
  (forall k, active (a k) (at_ (sum1 p path) k)) ->
  (forall k u, nth_error (units p) k = Some u -> active2 (y k) (at_ (sum2 p path) k) (through u) a /\ b k = clip (y k)) ->
  match judge (updates p) (map Some (wants p path)) (old_value path) with
  | Unread => True
  | Value new => forall k, (k < size p)%nat ->
      code (old_value path) k + added k (units p) b = code new k
  | Bad => False
  end.

Local Open Scope Z_scope.

(** ** States of the walk *)

Inductive stat := Open (v : ival) | On | Off | Gone. (* Gone: nothing that is still open reads it *)

Record open_state := {
  first : list stat;
  second : list (option ival);         (* None: decided *)
  total : list Z;                      (* what the decided units add *)
  todo : list (option want);           (* None: does not apply *)
  old : Z
}.

Definition state := option open_state. (* None: an undefined head is read, nothing is asked *)

Record after := {                      (* what the variables that are left can add, and which tests are complete *)
  rest1 : vector;
  rest2 : vector;
  complete : list (list bool)
}.

Definition add1 (c : ival) (s : stat) : stat :=
  match s with Open v => Open (addi v c) | _ => s end.

Definition settle1 (r : ival) (s : stat) : stat :=
  match s with
  | Open v =>
      let '(l, h, f) := addi v r in
      if 1 <=? l - slack f then On else if h + slack f <=? 0 then Off else s
  | _ => s
  end.

Fixpoint on_stats (f : ival -> stat -> stat) (v : vector) (s : list stat) : list stat :=
  match s with
  | [] => []
  | x :: s => f (hd zero v) x :: on_stats f (tl v) s
  end.

Definition piece (stats : list stat) (blurs : list bool) (k : nat) (x : Z) : ival :=
  match nth k stats Gone with
  | On => (x, x, false)
  | Off => zero
  | Open _ => (Z.min 0 x, Z.max 0 x, nth k blurs true)
  | Gone => (Z.min 0 x, Z.max 0 x, true)
  end.

Definition pass (stats : list stat) (blurs : list bool) (w : list (nat * Z)) : ival :=
  fold_right (fun '(k, x) s => addi (piece stats blurs k x) s) zero w.

Fixpoint addl (a b : list Z) : list Z :=
  match a, b with
  | [], b => b
  | a, [] => a
  | x :: a, y :: b => x + y :: addl a b
  end.

Fixpoint add2 (c : vector) (s : list (option ival)) : list (option ival) :=
  match s with
  | [] => []
  | x :: s => option_map (fun v => addi v (hd zero c)) x :: add2 (tl c) s
  end.

Fixpoint settle2 (stats : list stat) (blurs : list bool) (us : list unit2) (r : vector) (s : list (option ival))
  (t : list Z) : list (option ival) * list Z :=
  match us, s with
  | u :: us, x :: s =>
      match x with
      | None => let '(s', t') := settle2 stats blurs us (tl r) s t in (None :: s', t')
      | Some v =>
          let '(l, h, f) := addi (addi v (hd zero r)) (pass stats blurs (through u)) in
          if 1 <=? l - slack f
          then let '(s', t') := settle2 stats blurs us (tl r) s (addl t (column u)) in (None :: s', t')
          else if h + slack f <=? 0
          then let '(s', t') := settle2 stats blurs us (tl r) s t in (None :: s', t')
          else let '(s', t') := settle2 stats blurs us (tl r) s t in (x :: s', t')
      end
  | _, _ => (s, t)
  end.

(** Units of the first half that no open unit reads are forgotten. *)

Fixpoint needed (us : list unit2) (s : list (option ival)) : list nat :=
  match us, s with
  | u :: us, Some _ :: s => map fst (through u) ++ needed us s
  | _ :: us, None :: s => needed us s
  | _, _ => []
  end.

Fixpoint forget (k : nat) (keep : list nat) (s : list stat) : list stat :=
  match s with
  | [] => []
  | x :: s => (if existsb (Nat.eqb k) keep then x else Gone) :: forget (S k) keep s
  end.

Fixpoint settle_tests (tests : list tstat) (done : list bool) (al : list (list Z)) : option (list tstat) :=
  match tests with
  | [] => Some []
  | t :: tests =>
      match settle_tests tests (tl done) (tl al) with
      | None => None
      | Some others =>
          match t with
          | TSum z => if hd false done then if mem z (hd [] al) then Some (TPass :: others) else None
                      else Some (t :: others)
          | _ => Some (t :: others)
          end
      end
  end.

Definition settle_want (done : list bool) (u : update) (w : option want) : option want :=
  match w with
  | None => None
  | Some (tests, form, poisoned) =>
      match settle_tests tests done (allowed u) with
      | None => None
      | Some tests => Some (tests, form, poisoned)
      end
  end.

Fixpoint settle_wants (done : list (list bool)) (us : list update) (ws : list (option want)) : list (option want) :=
  match us, ws with
  | u :: us, w :: ws => settle_want (hd [] done) u w :: settle_wants (tl done) us ws
  | _, _ => ws
  end.

Definition raises (w : option want) : bool :=
  match w with
  | Some (tests, _, true) => forallb (fun t => match t with TSum _ => false | _ => true end) tests
  | _ => false
  end.

Fixpoint add_wants (u : bool) (ws : list (option want)) (cs : list (list (option Z) * option Z)) : list (option want) :=
  match ws with
  | [] => []
  | w :: ws => option_map (fun w => addw u w (hd ([], None) cs)) w :: add_wants u ws (tl cs)
  end.

Definition settle (p : problem) (a : after) (s : open_state) : state :=
  let stats := on_stats settle1 (rest1 a) (first s) in
  let ws := settle_wants (complete a) (updates p) (todo s) in
  if existsb raises (firstn (length (updates p)) ws) then None
  else
    let '(open2, t) := settle2 stats (rough p) (units p) (rest2 a) (second s) (total s) in
    Some {| first := forget 0 (needed (units p) open2) stats; second := open2; total := t; todo := ws; old := old s |}.

Definition advance (p : problem) (a : after) (s : state) (c : cell) : state :=
  match s with
  | None => None
  | Some s =>
      settle p a
        {| first := on_stats add1 (into1 c) (first s);
           second := add2 (into2 c) (second s);
           total := total s;
           todo := add_wants (undefined c) (todo s) (asks c);
           old := match own c with Some k => k | None => old s end |}
  end.

Definition codes_agree (n : nat) (before new : Z) (t : list Z) : bool :=
  forallb (fun k => Z.eqb ((if before =? Z.of_nat k then 1 else 0) + nth k t 0) (if new =? Z.of_nat k then 1 else 0))
    (seq 0 n).

Definition final (p : problem) (s : state) : bool :=
  match s with
  | None => true
  | Some s =>
      match judge (updates p) (todo s) (old s) with
      | Unread => true
      | Value new => forallb (fun x => match x with None => true | Some _ => false end) (second s)
                     && codes_agree (size p) (old s) new (total s)
      | Bad => false
      end
  end.

(** ** What is left, computed once for each variable *)

Definition hulls (f : cell -> vector) (cells : list cell) : vector :=
  match cells with
  | [] => []
  | c :: cells => fold_left (fun v c => hullv v (f c)) cells (f c)
  end.

Fixpoint and_row (flags : list bool) (row : list (option Z)) : list bool :=
  match flags, row with
  | b :: flags, d :: row => (b && match d with None => true | Some _ => false end) :: and_row flags row
  | flags, _ => flags
  end.

Fixpoint and_rows (flags : list (list bool)) (c : list (list (option Z) * option Z)) : list (list bool) :=
  match flags, c with
  | f :: flags, d :: c => and_row f (fst d) :: and_rows flags c
  | flags, _ => flags
  end.

Definition nothing_left (p : problem) : after :=
  {| rest1 := []; rest2 := []; complete := map (fun w : want => map (fun _ => true) (fst (fst w))) (begins p) |}.

Definition before (cells : list cell) (a : after) : after :=
  {| rest1 := addv (hulls into1 cells) (rest1 a);
     rest2 := addv (hulls into2 cells) (rest2 a);
     complete := fold_left (fun f c => and_rows f (asks c)) cells (complete a) |}.

Fixpoint build (p : problem) (vars : list (list cell)) : after * list (level state cell) :=
  match vars with
  | [] => (nothing_left p, [])
  | cells :: vars =>
      let '(a, levels) := build p vars in
      (before cells a, {| options := cells; next := advance p a |} :: levels)
  end.

Fixpoint start2 (us : list unit2) (v : vector) : list (option ival) :=
  match us with
  | [] => []
  | _ :: us => Some (hd zero v) :: start2 us (tl v)
  end.

Definition start (p : problem) (a : after) : state :=
  settle p a
    {| first := map Open (biases1 p); second := start2 (units p) (biases2 p); total := [];
       todo := map Some (begins p); old := -1 |}.

(** ** Well-formed problems *)

Fixpoint tidy_vector (blurs : list bool) (v : vector) : bool :=
  match v with
  | [] => true
  | (l, h, f) :: v => (if f then hd true blurs else l =? h) && tidy_vector (tl blurs) v
  end.

Definition tidy (p : problem) : bool :=
  tidy_vector (rough p) (biases1 p) && forallb (forallb (fun c => tidy_vector (rough p) (into1 c))) (variables p).

(** ** Equality and hash of states *)

Fixpoint list_eqb {A} (f : A -> A -> bool) (a b : list A) : bool :=
  match a, b with
  | [], [] => true
  | x :: a, y :: b => f x y && list_eqb f a b
  | _, _ => false
  end.

Definition option_eqb {A} (f : A -> A -> bool) (a b : option A) : bool :=
  match a, b with
  | None, None => true
  | Some x, Some y => f x y
  | _, _ => false
  end.

Definition ival_eqb (a b : ival) : bool :=
  let '(l, h, f) := a in let '(l', h', f') := b in (l =? l') && (h =? h') && Bool.eqb f f'.

Definition stat_eqb (a b : stat) : bool :=
  match a, b with
  | Open v, Open w => ival_eqb v w
  | On, On | Off, Off | Gone, Gone => true
  | _, _ => false
  end.

Definition tstat_eqb (a b : tstat) : bool :=
  match a, b with
  | TSum x, TSum y => x =? y
  | TPass, TPass | TSpoiled, TSpoiled => true
  | _, _ => false
  end.

Definition want_eqb (a b : want) : bool :=
  let '(l, f, p) := a in let '(l', f', p') := b in
  list_eqb tstat_eqb l l' && option_eqb Z.eqb f f' && Bool.eqb p p'.

Definition open_eqb (a b : open_state) : bool :=
  (old a =? old b) && list_eqb Z.eqb (total a) (total b) && list_eqb (option_eqb want_eqb) (todo a) (todo b)
  && list_eqb stat_eqb (first a) (first b) && list_eqb (option_eqb ival_eqb) (second a) (second b).

Definition state_eqb : state -> state -> bool := option_eqb open_eqb.

Lemma list_eqb_sound : forall {A} (f : A -> A -> bool), (forall x y, f x y = true -> x = y) ->
  forall a b, list_eqb f a b = true -> a = b.
Proof.
  intros A f F. induction a as [| x a IH]; intros [| y b] H; simpl in H; try discriminate; auto.
  apply andb_true_iff in H. destruct H as [H1 H2]. f_equal; auto.
Qed.

Lemma option_eqb_sound : forall {A} (f : A -> A -> bool), (forall x y, f x y = true -> x = y) ->
  forall a b, option_eqb f a b = true -> a = b.
Proof. intros A f F [x |] [y |] H; simpl in H; try discriminate; auto. f_equal. auto. Qed.

Lemma ival_eqb_sound : forall a b, ival_eqb a b = true -> a = b.
Proof.
  intros [[l h] f] [[l' h'] f'] H. simpl in H. rewrite !andb_true_iff, !Z.eqb_eq in H.
  destruct H as [[-> ->] H]. apply eqb_prop in H. now subst.
Qed.

Lemma stat_eqb_sound : forall a b, stat_eqb a b = true -> a = b.
Proof. intros [v | | |] [w | | |] H; simpl in H; try discriminate; auto. f_equal. now apply ival_eqb_sound. Qed.

Lemma tstat_eqb_sound : forall a b, tstat_eqb a b = true -> a = b.
Proof. intros [| | x] [| | y] H; simpl in H; try discriminate; auto. apply Z.eqb_eq in H. now subst. Qed.

Lemma want_eqb_sound : forall a b, want_eqb a b = true -> a = b.
Proof.
  intros [[l f] p] [[l' f'] p'] H. simpl in H. rewrite !andb_true_iff in H. destruct H as [[H1 H2] H3].
  apply (list_eqb_sound _ tstat_eqb_sound) in H1. apply (option_eqb_sound Z.eqb) in H2.
  - apply eqb_prop in H3. now subst.
  - intros x y E. now apply Z.eqb_eq.
Qed.

Lemma state_eqb_sound : forall a b, state_eqb a b = true -> a = b.
Proof.
  apply option_eqb_sound. intros a b H. unfold open_eqb in H. rewrite !andb_true_iff in H.
  destruct H as [[[[H1 H2] H3] H4] H5]. apply Z.eqb_eq in H1.
  apply (list_eqb_sound Z.eqb) in H2; [| intros x y E; now apply Z.eqb_eq].
  apply (list_eqb_sound _ (option_eqb_sound _ want_eqb_sound)) in H3.
  apply (list_eqb_sound _ stat_eqb_sound) in H4.
  apply (list_eqb_sound _ (option_eqb_sound _ ival_eqb_sound)) in H5.
  destruct a, b. simpl in *. now subst.
Qed.

Definition mix (h x : Z) : Z := (h * 1000003 + x + 7) mod 2305843009213693951.

Definition hash_ival (h : Z) (v : ival) : Z := let '(l, u, f) := v in mix (mix h l) (if f then u + 1 else u).

Definition hash_state (s : state) : Z :=
  match s with
  | None => 0
  | Some s =>
      let h := fold_left mix (total s) (mix 11 (old s)) in
      let h := fold_left (fun h x => match x with Open v => hash_ival h v | On => mix h 1 | Off => mix h 2 | Gone => mix h 3 end)
                 (first s) h in
      let h := fold_left (fun h x => match x with Some v => hash_ival h v | None => mix h 5 end) (second s) h in
      fold_left (fun h w => match w with
                            | None => mix h 13
                            | Some (l, f, p) =>
                                fold_left (fun h t => match t with TSum z => mix h z | TPass => mix h 17 | TSpoiled => mix h 19 end) l
                                  (mix h (match f with Some z => z | None => 23 end))
                            end) (todo s) h
  end.

(** ** The checker of one variable *)

Definition check_variable (p : problem) : bool :=
  let '(a, levels) := build p (variables p) in
  tidy p && walk state cell state_eqb hash_state (final p) levels [start p a].

(** ** Soundness *)

Lemma at_0 : forall v, hd zero v = at_ v 0.
Proof. now destruct v. Qed.

Lemma at_S : forall v k, at_ (tl v) k = at_ v (S k).
Proof. destruct v; intros k; unfold at_; simpl; auto. now destruct k. Qed.

Lemma on_stats_nth : forall f s v k, nth_error (on_stats f v s) k = option_map (f (at_ v k)) (nth_error s k).
Proof.
  induction s as [| x s IH]; intros v k; simpl.
  - now destruct k.
  - destruct k; simpl; [now rewrite at_0 | now rewrite IH, at_S].
Qed.

Lemma clip_bounds : forall y, (0 <= clip y <= 1)%R.
Proof.
  intros y. unfold clip. split.
  - apply Rmin_glb; [apply Rmax_r | lra].
  - apply Rmin_r.
Qed.

Lemma clip_on : forall y, (1 <= y)%R -> clip y = 1%R.
Proof. intros y H. unfold clip. rewrite Rmax_left, Rmin_right; lra. Qed.

Lemma clip_off : forall y, (y <= 0)%R -> clip y = 0%R.
Proof. intros y H. unfold clip. rewrite Rmax_right, Rmin_left; lra. Qed.

Lemma slack_mono : forall f g, (f = true -> g = true) -> slack f <= slack g.
Proof. intros [|] [|] H; simpl; try lia; discriminate (H eq_refl). Qed.

Section Units.

Variable p : problem.
Variables a : nat -> R.
Variable F1 : vector.
Hypothesis HA : forall k, active (a k) (at_ F1 k).
Hypothesis HC : forall k, nth k (rough p) true = false -> a k = 0%R \/ a k = 1%R.

Definition good1 (pre : vector) (s : list stat) : Prop := forall k x, nth_error s k = Some x ->
  match x with
  | Open v => v = at_ pre k
  | On => a k = 1%R
  | Off => a k = 0%R
  | Gone => True
  end.

Lemma good1_add : forall pre c s, good1 pre s -> good1 (addv pre c) (on_stats add1 c s).
Proof.
  intros pre c s G k x H. rewrite on_stats_nth in H. destruct (nth_error s k) as [z |] eqn:E; [| discriminate].
  injection H as <-. specialize (G k z E). destruct z; simpl; auto. rewrite at_addv. now subst.
Qed.

Lemma good1_settle : forall pre r s, (forall k, contains (addi (at_ pre k) (at_ r k)) (at_ F1 k)) ->
  good1 pre s -> good1 pre (on_stats settle1 r s).
Proof.
  intros pre r s B G k x H. rewrite on_stats_nth in H. destruct (nth_error s k) as [z |] eqn:E; [| discriminate].
  injection H as <-. specialize (G k z E). destruct z as [v | | |]; simpl; auto. subst v.
  specialize (B k). destruct (HA k) as (y & Y & Ya).
  destruct (addi (at_ pre k) (at_ r k)) as [[l h] f]. destruct (at_ F1 k) as [[l' h'] f'].
  simpl in B, Y. destruct B as (B1 & B2 & B3). apply slack_mono in B3.
  apply IZR_le in B1. apply IZR_le in B2. apply IZR_le in B3.
  destruct (Z.leb_spec 1 (l - slack f)) as [L | L].
  - apply IZR_le in L. rewrite minus_IZR in L. rewrite Ya. apply clip_on. lra.
  - destruct (Z.leb_spec (h + slack f) 0) as [M | M]; auto.
    apply IZR_le in M. rewrite plus_IZR in M. rewrite Ya. apply clip_off. lra.
Qed.

Lemma forget_nth : forall s j keep k x, nth_error (forget j keep s) k = Some x -> x = Gone \/ nth_error s k = Some x.
Proof.
  induction s as [| z s IH]; intros j keep k x H; simpl in H.
  - destruct k; discriminate.
  - destruct k; simpl in *.
    + injection H as <-. destruct (existsb (Nat.eqb j) keep); auto.
    + now apply IH in H.
Qed.

Lemma good1_forget : forall pre j keep s, good1 pre s -> good1 pre (forget j keep s).
Proof. intros pre j keep s G k x H. apply forget_nth in H. destruct H as [-> | H]; auto. now apply (G k x). Qed.

Lemma piece_sound : forall pre s k x, good1 pre s ->
  let '(l, h, f) := piece s (rough p) k x in
  (IZR l <= IZR x * a k <= IZR h)%R /\ (f = false -> x = 0%Z \/ a k = 0%R \/ a k = 1%R).
Proof.
  intros pre s k x G. unfold piece.
  assert (A01 : (0 <= a k <= 1)%R) by (destruct (HA k) as (y & _ & ->); apply clip_bounds).
  assert (W : (IZR (Z.min 0 x) <= IZR x * a k <= IZR (Z.max 0 x))%R).
  { destruct (Z.le_ge_cases 0 x) as [L | L].
    - rewrite Z.min_l, Z.max_r by lia. apply IZR_le in L. nra.
    - rewrite Z.min_r, Z.max_l by lia. apply IZR_le in L. nra. }
  destruct (nth_error s k) as [z |] eqn:E.
  - rewrite (nth_error_nth s k Gone E). specialize (G k z E). destruct z as [v | | |].
    + split; [exact W |]. intros R. right. now apply HC.
    + rewrite G. split; [lra | auto].
    + rewrite G. simpl. split; [lra | auto].
    + split; [exact W | discriminate].
  - apply nth_error_None in E. rewrite nth_overflow by auto. split; [exact W | discriminate].
Qed.

Lemma pass_sound : forall pre s w, good1 pre s ->
  let '(l, h, f) := pass s (rough p) w in
  (IZR l <= weighted w a <= IZR h)%R /\ (f = false -> crisp w a).
Proof.
  intros pre s w G. induction w as [| [k x] w IH]; simpl.
  - split; [lra |]. intros _ j z [].
  - pose proof (piece_sound pre s k x G) as P. fold (pass s (rough p) w).
    destruct (piece s (rough p) k x) as [[l h] f]. destruct (pass s (rough p) w) as [[l' h'] f'].
    simpl. destruct P as [P1 P2]. destruct IH as [I1 I2]. rewrite !plus_IZR. split; [lra |].
    intros F j z [J | J]; apply orb_false_iff in F; destruct F as [Fa Fb].
    + injection J as <- <-. now apply P2.
    + now apply (I2 Fb j z).
Qed.

Fixpoint open_added (k : nat) (us : list unit2) (s : list (option ival)) (b : nat -> R) : R :=
  match us, s with
  | u :: us, x :: s =>
      ((match x with Some _ => IZR (nth k (column u) 0%Z) * b O | None => 0 end)
       + open_added k us s (fun i => b (S i)))%R
  | _, _ => 0%R
  end.

Lemma nth_addl : forall x y k, nth k (addl x y) 0 = nth k x 0 + nth k y 0.
Proof.
  induction x as [| u x IH]; intros y k; simpl addl.
  - now destruct k.
  - destruct y as [| v y]; [destruct k; simpl; lia |]. destruct k; simpl; auto.
Qed.

Lemma settle2_sound : forall us pre1 stats r s t pre (F : nat -> ival) y b s' t', good1 pre1 stats ->
  settle2 stats (rough p) us r s t = (s', t') ->
  (forall k u, nth_error us k = Some u -> active2 (y k) (F k) (through u) a /\ b k = clip (y k)) ->
  (forall k, contains (addi (at_ pre k) (at_ r k)) (F k)) ->
  (forall k v, nth_error s k = Some (Some v) -> v = at_ pre k) ->
  (forall k v, nth_error s' k = Some (Some v) -> v = at_ pre k) /\
  (forall k, (IZR (nth k t' 0%Z) + open_added k us s' b = IZR (nth k t 0%Z) + open_added k us s b)%R) /\
  length s' = length s.
Proof.
  induction us as [| u us IH]; intros pre1 stats r s t pre F y b s' t' G H A B V.
  - simpl in H. injection H as <- <-. auto.
  - destruct s as [| x s]; simpl in H.
    { injection H as <- <-. auto. }
    assert (IH' := fun t s' t' E => IH pre1 stats (tl r) s t (tl pre) (fun i => F (S i)) (fun i => y (S i))
      (fun i => b (S i)) s' t' G E (fun k v N => A (S k) v N)
      (fun k => ltac:(rewrite !at_S; exact (B (S k)))) (fun k v N => ltac:(rewrite at_S; exact (V (S k) v N)))).
    assert (Next : forall t s1 t1 (z : option ival), settle2 stats (rough p) us (tl r) s t = (s1, t1) ->
      (forall v, z = Some v -> v = at_ pre 0) ->
      (forall k v, nth_error (z :: s1) k = Some (Some v) -> v = at_ pre k) /\ length (z :: s1) = length (x :: s)).
    { intros t0 s1 t1 z E Z. destruct (IH' t0 s1 t1 E) as (I1 & I2 & I3). split; [| simpl; auto].
      intros [| k] v N; simpl in N.
      - apply Z. now injection N.
      - rewrite <- at_S. now apply I1. }
    destruct x as [v |].
    + assert (Ev : v = at_ pre 0) by (apply V; reflexivity).
      pose proof (pass_sound pre1 stats (through u) G) as P.
      destruct (A O u eq_refl) as [Act Bk].
      pose proof (B O) as C. rewrite at_0 in H. subst v.
      destruct (addi (at_ pre 0) (at_ r 0)) as [[l h] f]. destruct (pass stats (rough p) (through u)) as [[pl ph] pf].
      destruct (F O) as [[l' h'] f']. simpl in C. destruct C as (C1 & C2 & C3). destruct P as [P1 P2].
      destruct Act as (z & e & Z1 & Z2 & Z3 & Z4).
      assert (E : (Rabs e <= IZR (slack (f || pf)))%R).
      { destruct f, pf; simpl; auto. assert (f' = false) by (destruct f'; auto; discriminate C3; auto).
        rewrite Z4; auto. rewrite Rabs_R0. lra. }
      apply Rabs_le_inv in E. apply IZR_le in C1. apply IZR_le in C2.
      cbn [addi] in H.
      destruct (Z.leb_spec 1 (l + pl - slack (f || pf))) as [L | L].
      * destruct (settle2 stats (rough p) us (tl r) s (addl t (column u))) as [s1 t1] eqn:E1.
        injection H as <- <-.
        destruct (Next _ _ _ None E1) as [N1 N2]; [discriminate |]. destruct (IH' _ _ _ E1) as (I1 & I2 & I3).
        split; [exact N1 |]. split; [| exact N2].
        intros k. simpl. rewrite Rplus_0_l, I2, nth_addl, plus_IZR.
        assert (b O = 1%R).
        { rewrite Bk. apply clip_on. apply IZR_le in L. rewrite minus_IZR, plus_IZR in L. lra. }
        rewrite H. lra.
      * destruct (Z.leb_spec (h + ph + slack (f || pf)) 0) as [M | M].
        -- destruct (settle2 stats (rough p) us (tl r) s t) as [s1 t1] eqn:E1. injection H as <- <-.
           destruct (Next _ _ _ None E1) as [N1 N2]; [discriminate |]. destruct (IH' _ _ _ E1) as (I1 & I2 & I3).
           split; [exact N1 |]. split; [| exact N2].
           intros k. simpl. rewrite Rplus_0_l, I2.
           assert (b O = 0%R).
           { rewrite Bk. apply clip_off. apply IZR_le in M. rewrite !plus_IZR in M. lra. }
           rewrite H. lra.
        -- destruct (settle2 stats (rough p) us (tl r) s t) as [s1 t1] eqn:E1. injection H as <- <-.
           destruct (Next _ _ _ (Some (at_ pre 0)) E1) as [N1 N2]; [congruence |]. destruct (IH' _ _ _ E1) as (I1 & I2 & I3).
           split; [exact N1 |]. split; [| exact N2].
           intros k. simpl. specialize (I2 k). lra.
    + destruct (settle2 stats (rough p) us (tl r) s t) as [s1 t1] eqn:E1. injection H as <- <-.
      destruct (Next _ _ _ None E1) as [N1 N2]; [discriminate |]. destruct (IH' _ _ _ E1) as (I1 & I2 & I3).
      split; [exact N1 |]. split; [| exact N2].
      intros k. simpl. rewrite !Rplus_0_l. apply I2.
Qed.

Lemma add2_nth : forall s c k, nth_error (add2 c s) k = option_map (option_map (fun v => addi v (at_ c k))) (nth_error s k).
Proof.
  induction s as [| x s IH]; intros c k; simpl.
  - now destruct k.
  - destruct k; simpl; [now rewrite at_0 | now rewrite IH, at_S].
Qed.

Lemma open_added_add2 : forall us s c k b, open_added k us (add2 c s) b = open_added k us s b.
Proof.
  induction us as [| u us IH]; intros [| x s] c k b; simpl; auto. rewrite IH. now destruct x.
Qed.

Lemma open_added_start : forall us v k b, open_added k us (start2 us v) b = added k us b.
Proof. induction us as [| u us IH]; intros v k b; simpl; auto. now rewrite IH. Qed.

Lemma start2_nth : forall us v k x, nth_error (start2 us v) k = Some x -> x = Some (at_ v k).
Proof.
  induction us as [| u us IH]; intros v k x H; simpl in H.
  - destruct k; discriminate.
  - destruct k; simpl in H; [injection H as <-; now rewrite at_0 |].
    apply IH in H. now rewrite at_S in H.
Qed.

Lemma open_added_none : forall us s k b, forallb (fun x : option ival => match x with None => true | Some _ => false end) s = true ->
  open_added k us s b = 0%R.
Proof.
  induction us as [| u us IH]; intros [| x s] k b H; simpl in *; auto.
  destruct x; [discriminate |]. simpl in H. rewrite IH by auto. ring.
Qed.

End Units.

(** ** Tests and updates *)

Fixpoint rel (s q f : list tstat) (al : list (list Z)) : Prop :=
  match s, q, f with
  | t :: s, t0 :: q, tf :: f => (t = t0 \/ (t = TPass /\ ok_test tf (hd [] al) = true)) /\ rel s q f (tl al)
  | [], [], [] => True
  | _, _, _ => False
  end.

Lemma rel_refl : forall q f al, length q = length f -> rel q q f al.
Proof.
  induction q as [| t q IH]; intros [| tf f] al L; simpl in *; try discriminate; auto.
Qed.

Lemma addts_length : forall u l c, length (addts u l c) = length l.
Proof. induction l as [| t l IH]; intros [| d c]; simpl; auto. Qed.

Lemma rel_add : forall u s q f al c, rel s q f al -> rel (addts u s c) (addts u q c) f al.
Proof.
  induction s as [| t s IH]; intros [| t0 q] [| tf f] al c R; simpl in R; try contradiction.
  - simpl. auto.
  - destruct c as [| d c]; [exact R |]. destruct R as [R1 R2]. simpl. split; auto.
    destruct R1 as [-> | [-> R1]]; auto.
Qed.

Lemma settle_tests_sound : forall s q f al done, rel s q f al ->
  (forall j, nth j done false = true -> nth j f TPass = nth j q TPass) ->
  match settle_tests s done al with
  | Some s' => rel s' q f al
  | None => all_ok f al = false
  end.
Proof.
  induction s as [| t s IH]; intros [| t0 q] [| tf f] al done R D; simpl in R; try contradiction; simpl; auto.
  destruct R as [R1 R2].
  specialize (IH q f (tl al) (tl done) R2).
  assert (D' : forall j, nth j (tl done) false = true -> nth j f TPass = nth j q TPass).
  { intros j H. apply (D (S j)). destruct done; auto. simpl in H. now destruct j. }
  specialize (IH D'). destruct (settle_tests s (tl done) (tl al)) as [others |].
  - destruct t as [| | z]; simpl; auto.
    destruct (hd false done) eqn:Hd; simpl; auto.
    assert (E : tf = t0) by (apply (D O); destruct done; auto).
    destruct R1 as [R1 | [R1 _]]; [| discriminate]. subst t0. subst tf.
    destruct (mem z (hd [] al)) eqn:M; simpl; auto. now rewrite M.
  - rewrite IH. apply andb_false_r.
Qed.

Lemma rel_final : forall s q al, rel s q q al -> all_ok s al = all_ok q al.
Proof.
  induction s as [| t s IH]; intros [| t0 q] al R; simpl in R; try contradiction; simpl; auto.
  destruct R as [R1 R2]. rewrite (IH q (tl al)) by auto. f_equal.
  destruct R1 as [-> | [-> R1]]; auto.
Qed.

Definition leads (t tf : tstat) : Prop := match t with TSum _ => True | _ => tf = t end.

Lemma rel_raises : forall s q f al, rel s q f al -> Forall2 leads q f ->
  forallb (fun t => match t with TSum _ => false | _ => true end) s = true -> all_ok f al = true.
Proof.
  induction s as [| t s IH]; intros [| t0 q] [| tf f] al R L H; simpl in R; try contradiction; simpl; auto.
  inversion L as [| x1 x2 l1 l2 L1 L2]; subst.
  simpl in H. apply andb_true_iff in H. destruct H as [H1 H2]. destruct R as [R1 R2].
  rewrite (IH q f (tl al)) by auto. rewrite andb_true_r.
  destruct R1 as [-> | [-> R1]]; auto.
  destruct t0; try discriminate; simpl in L1; now subst.
Qed.

(** One update along a path. *)

Definition asks_of (i : nat) (c : cell) : list (option Z) * option Z := nth i (asks c) ([], None).

Definition foldw (i : nat) (path : list cell) (w : want) : want :=
  fold_left (fun w c => addw (undefined c) w (asks_of i c)) path w.

Lemma addw_nothing : forall u w, addw u w ([], None) = w.
Proof.
  intros u [[l f] q]. unfold addw. simpl. rewrite andb_false_r, orb_false_r.
  destruct l, f; reflexivity.
Qed.

Lemma addws_nth : forall u ws cs i,
  nth_error (addws u ws cs) i = option_map (fun w => addw u w (nth i cs ([], None))) (nth_error ws i).
Proof.
  induction ws as [| w ws IH]; intros cs i.
  - destruct i; reflexivity.
  - destruct cs as [| c cs].
    + simpl. destruct (nth_error (w :: ws) i); simpl; auto. destruct i; now rewrite addw_nothing.
    + destruct i; simpl; auto.
Qed.

Lemma wants_nth : forall path ws i,
  nth_error (fold_left (fun w c => addws (undefined c) w (asks c)) path ws) i
  = option_map (foldw i path) (nth_error ws i).
Proof.
  induction path as [| c path IH]; intros ws i; simpl.
  - now destruct (nth_error ws i).
  - rewrite IH, addws_nth. now destruct (nth_error ws i).
Qed.

Lemma add_wants_nth : forall ws u cs i,
  nth_error (add_wants u ws cs) i = option_map (option_map (fun w => addw u w (nth i cs ([], None)))) (nth_error ws i).
Proof.
  induction ws as [| w ws IH]; intros u cs i; simpl.
  - now destruct i.
  - destruct i; simpl.
    + now destruct cs.
    + rewrite IH. destruct cs; simpl; auto. now destruct i.
Qed.

Definition tests_of (w : want) : list tstat := fst (fst w).

Lemma foldw_length : forall i path w, length (tests_of (foldw i path w)) = length (tests_of w).
Proof.
  intros i. induction path as [| c path IH]; intros w; simpl; auto.
  rewrite IH. destruct w as [[l f] q]. unfold tests_of. simpl. apply addts_length.
Qed.

Lemma addt_leads : forall u t d tf, leads (addt u t d) tf -> leads t tf.
Proof. intros u [| | z] d tf; simpl; auto. Qed.

Lemma addts_leads : forall u l c f, Forall2 leads (addts u l c) f -> Forall2 leads l f.
Proof.
  induction l as [| t l IH]; intros c f H.
  - destruct c; exact H.
  - destruct c as [| d c]; [exact H |]. simpl in H. inversion H; subst. constructor; eauto using addt_leads.
Qed.

Lemma foldw_leads : forall i path w, Forall2 leads (tests_of w) (tests_of (foldw i path w)).
Proof.
  intros i. induction path as [| c path IH]; intros w; simpl.
  - induction (tests_of w) as [| t l IHl]; constructor; auto. now destruct t.
  - specialize (IH (addw (undefined c) w (asks_of i c))).
    destruct w as [[l f] q]. unfold tests_of in *. simpl in *. eapply addts_leads. exact IH.
Qed.

Lemma foldw_poisoned : forall i path w, snd w = true -> snd (foldw i path w) = true.
Proof.
  intros i. induction path as [| c path IH]; intros w H; simpl; auto.
  apply IH. destruct w as [[l f] q]. simpl in *. now rewrite H.
Qed.

Lemma addts_nth : forall u l c j, nth j c None = None -> nth j (addts u l c) TPass = nth j l TPass.
Proof.
  induction l as [| t l IH]; intros [| d c] j H; simpl; auto.
  destruct j; simpl in *; auto. subst d. destruct t; reflexivity.
Qed.

Lemma foldw_complete : forall i j path w, Forall (fun c => nth j (fst (asks_of i c)) None = None) path ->
  nth j (tests_of (foldw i path w)) TPass = nth j (tests_of w) TPass.
Proof.
  intros i j path w H. revert w. induction H as [| c path Hc Hp IH]; intros w; simpl; auto.
  rewrite IH. destruct w as [[l f] q]. unfold tests_of. simpl. now apply addts_nth.
Qed.

(** Settled updates beside what they are in full. *)

Definition good_want (u : update) (s : option want) (w f : want) : Prop :=
  match s with
  | None => all_ok (tests_of f) (allowed u) = false
  | Some (tests, form, q) => form = snd (fst w) /\ q = snd w /\ rel tests (tests_of w) (tests_of f) (allowed u)
  end.

Definition good_wants (us : list update) (ss : list (option want)) (ws : list want) (path : list cell) : Prop :=
  length ss = length ws /\
  forall i u s w, nth_error us i = Some u -> nth_error ss i = Some s -> nth_error ws i = Some w ->
  good_want u s w (foldw i path w).

Lemma settle_wants_nth : forall us ss done i u s, nth_error us i = Some u -> nth_error ss i = Some s ->
  nth_error (settle_wants done us ss) i = Some (settle_want (nth i done []) u s).
Proof.
  induction us as [| v us IH]; intros ss done i u s U S; [now destruct i |].
  destruct ss as [| x ss]; [now destruct i |].
  destruct i; simpl in *.
  - injection U as ->. injection S as ->. now destruct done.
  - rewrite (IH ss (tl done) i u s) by auto. do 2 f_equal. destruct done; simpl; auto. now destruct i.
Qed.

Lemma settle_wants_length : forall us ss done, length (settle_wants done us ss) = length ss.
Proof. induction us as [| u us IH]; intros [| s ss] done; simpl; auto. Qed.

Lemma good_wants_settle : forall us ss ws path done, good_wants us ss ws path ->
  (forall i j, nth j (nth i done []) false = true -> Forall (fun c => nth j (fst (asks_of i c)) None = None) path) ->
  good_wants us (settle_wants done us ss) ws path.
Proof.
  intros us ss ws path done [L G] D. split; [now rewrite settle_wants_length |].
  intros i u s w U S W.
  destruct (nth_error ss i) as [s0 |] eqn:E.
  - rewrite (settle_wants_nth us ss done i u s0 U E) in S. injection S as <-.
    specialize (G i u s0 w U E W). destruct s0 as [[[tests form] q] |]; simpl in *; auto.
    destruct G as (G1 & G2 & G3).
    pose proof (settle_tests_sound tests (tests_of w) (tests_of (foldw i path w)) (allowed u) (nth i done []) G3) as T.
    assert (D' : forall j, nth j (nth i done []) false = true ->
      nth j (tests_of (foldw i path w)) TPass = nth j (tests_of w) TPass).
    { intros j J. apply foldw_complete. now apply D. }
    specialize (T D'). destruct (settle_tests tests (nth i done []) (allowed u)); simpl; auto.
  - apply nth_error_None in E. assert (nth_error (settle_wants done us ss) i = None).
    { apply nth_error_None. now rewrite settle_wants_length. }
    rewrite H in S. discriminate.
Qed.

Lemma good_wants_add : forall us ss ws c path, good_wants us ss ws (c :: path) ->
  good_wants us (add_wants (undefined c) ss (asks c)) (addws (undefined c) ws (asks c)) path.
Proof.
  intros us ss ws c path [L G]. split.
  - assert (A : forall ss u cs, length (add_wants u ss cs) = length ss).
    { induction ss0 as [| s ss0 IH]; intros; simpl; auto. }
    assert (B : forall ws u cs, length (addws u ws cs) = length ws).
    { induction ws0 as [| w ws0 IH]; intros u [| x cs]; simpl; auto. }
    now rewrite A, B.
  - intros i u s w U S W. rewrite add_wants_nth in S. rewrite addws_nth in W.
    destruct (nth_error ss i) as [s0 |] eqn:Es; [| discriminate].
    destruct (nth_error ws i) as [w0 |] eqn:Ew; [| discriminate].
    injection S as <-. injection W as <-. specialize (G i u s0 w0 U Es Ew). simpl in G.
    fold (asks_of i c) in *. destruct s0 as [[[tests form] q] |]; simpl; auto.
    destruct G as (-> & -> & G). destruct w0 as [[l f] q]. simpl. repeat split; auto.
    unfold tests_of in *. simpl. now apply rel_add.
Qed.

Lemma scan_settled : forall us ss ws, length ss = length ws ->
  (forall i u s w, nth_error us i = Some u -> nth_error ss i = Some s -> nth_error ws i = Some w -> good_want u s w w) ->
  scan us ss = scan us (map Some ws).
Proof.
  induction us as [| u us IH]; intros [| s ss] [| w ws] L G; simpl in *; try discriminate; auto.
  rewrite (IH ss ws) by (auto; intros i u' s' w' A B C; now apply (G (S i) u' s' w')).
  destruct (scan us (map Some ws)) as [q l].
  pose proof (G O u s w eq_refl eq_refl eq_refl) as H. destruct w as [[t f] b].
  destruct s as [[[tests form] q'] |]; simpl in H.
  - destruct H as (-> & -> & R). unfold tests_of in R. simpl in R. now rewrite (rel_final _ _ _ R).
  - unfold tests_of in H. simpl in H. now rewrite H.
Qed.

Lemma scan_raises : forall us ws i u w, nth_error us i = Some u -> nth_error ws i = Some w ->
  all_ok (tests_of w) (allowed u) = true -> snd w = true -> fst (scan us (map Some ws)) = true.
Proof.
  induction us as [| v us IH]; intros [| x ws] i u w U W A P; try (destruct i; discriminate).
  simpl. destruct (scan us (map Some ws)) as [q l] eqn:E.
  destruct i; simpl in U, W.
  - injection U as ->. injection W as ->. destruct w as [[t f] b]. unfold tests_of in A. simpl in A, P.
    rewrite A. simpl. rewrite P. apply orb_true_r.
  - specialize (IH ws i u w U W A P). rewrite E in IH. simpl in IH. subst q.
    destruct x as [[t f] b]. destruct (all_ok t (allowed v)); reflexivity.
Qed.

(** What is left bounds what comes. *)

Lemma hulls_contain : forall f cells c k, In c cells -> contains (at_ (hulls f cells) k) (at_ (f c) k).
Proof.
  intros f cells c k I. destruct cells as [| d cells]; [contradiction |]. simpl.
  assert (M : forall l v, contains (at_ (fold_left (fun v c => hullv v (f c)) l v) k) (at_ v k)).
  { induction l as [| e l IH]; intros v; simpl; [apply contains_refl |].
    eapply contains_trans; [apply IH |]. rewrite at_hullv. apply contains_hull. left. apply contains_refl. }
  simpl in I. destruct I as [-> | I]; auto.
  generalize (f d). induction cells as [| e cells IH]; intros v; [contradiction |]. simpl.
  destruct I as [-> | I]; auto.
  eapply contains_trans; [apply M |]. rewrite at_hullv. apply contains_hull. right. apply contains_refl.
Qed.

Lemma build_bounds : forall p vars path a levels, build p vars = (a, levels) ->
  Forall2 (fun cells c => In c cells) vars path ->
  (forall pre k, contains (addi (at_ pre k) (at_ (rest1 a) k)) (at_ (fold_left (fun v c => addv v (into1 c)) path pre) k)) /\
  (forall pre k, contains (addi (at_ pre k) (at_ (rest2 a) k)) (at_ (fold_left (fun v c => addv v (into2 c)) path pre) k)).
Proof.
  intros p vars path a levels B P. revert a levels B. induction P as [| cells c vars path I P IH]; intros a levels B.
  - simpl in B. injection B as <- _. simpl. split; intros pre k; unfold at_ at 2; destruct k; simpl;
      rewrite addi_zero; apply contains_refl.
  - simpl in B. destruct (build p vars) as [a0 levels0]. injection B as <- _. destruct (IH a0 levels0 eq_refl) as [I1 I2].
    simpl. split; intros pre k.
    + eapply contains_trans; [| apply I1]. rewrite !at_addv, <- addi_assoc.
      apply contains_addi; [apply contains_refl |]. apply contains_addi; [| apply contains_refl].
      now apply hulls_contain.
    + eapply contains_trans; [| apply I2]. rewrite !at_addv, <- addi_assoc.
      apply contains_addi; [apply contains_refl |]. apply contains_addi; [| apply contains_refl].
      now apply hulls_contain.
Qed.

Lemma and_row_nth : forall f row j, nth j (and_row f row) false = true ->
  nth j f false = true /\ nth j row None = None.
Proof.
  induction f as [| b f IH]; intros row j H.
  - destruct row; destruct j; discriminate.
  - destruct row as [| d row]; [split; auto; now destruct j |]. destruct j; simpl in *.
    + apply andb_true_iff in H. destruct H as [-> H]. split; auto. now destruct d.
    + now apply IH.
Qed.

Lemma and_rows_nth : forall f c i j, nth j (nth i (and_rows f c) []) false = true ->
  nth j (nth i f []) false = true /\ nth j (fst (nth i c ([], None))) None = None.
Proof.
  induction f as [| b f IH]; intros c i j H.
  - destruct c; destruct i; destruct j; discriminate.
  - destruct c as [| d c]; [split; auto; destruct i; now destruct j |].
    destruct i; simpl in *; [now apply and_row_nth | now apply IH].
Qed.

Lemma build_complete : forall p vars path a levels, build p vars = (a, levels) ->
  Forall2 (fun cells c => In c cells) vars path ->
  forall i j, nth j (nth i (complete a) []) false = true -> Forall (fun c => nth j (fst (asks_of i c)) None = None) path.
Proof.
  intros p vars path a levels B P. revert a levels B. induction P as [| cells c vars path I P IH]; intros a levels B i j H.
  - constructor.
  - simpl in B. destruct (build p vars) as [a0 levels0]. injection B as <- _. simpl in H.
    assert (G : forall l f, nth j (nth i (fold_left (fun f c => and_rows f (asks c)) l f) []) false = true ->
      nth j (nth i f []) false = true /\ forall c, In c l -> nth j (fst (asks_of i c)) None = None).
    { induction l as [| d l IHl]; intros f K; simpl in K; [split; auto; intros ? [] |].
      apply IHl in K. destruct K as [K1 K2]. apply and_rows_nth in K1. destruct K1 as [K1 K3]. split; auto.
      intros e [<- | E]; auto. }
    apply G in H. destruct H as [H1 H2]. constructor; auto. now apply (IH a0 levels0 eq_refl i j).
Qed.

(** ** The theorem *)

Lemma tidy_at : forall v blurs k, tidy_vector blurs v = true ->
  let '(l, h, f) := at_ v k in (f = false -> l = h) /\ (f = true -> nth k blurs true = true).
Proof.
  induction v as [| [[l h] f] v IH]; intros blurs k T.
  - unfold at_. destruct k; simpl; split; auto; discriminate.
  - simpl in T. apply andb_true_iff in T. destruct T as [T1 T2]. destruct k; unfold at_; simpl.
    + destruct f; split; auto; try discriminate.
      * intros _. now destruct blurs.
      * intros _. now apply Z.eqb_eq.
    + specialize (IH (tl blurs) k T2). unfold at_ in IH. destruct (nth k v zero) as [[l' h'] f'].
      destruct IH as [I1 I2]. split; auto. intros F. specialize (I2 F). destruct blurs; auto; now destruct k.
Qed.

Lemma nth_error_first : forall {A} n (l : list A) i, (i < n)%nat -> nth_error l i = nth_error (firstn n l) i.
Proof.
  induction n as [| n IH]; intros l i L; [lia |]. destruct l; simpl; [now destruct i |].
  destruct i; simpl; auto. apply IH. lia.
Qed.

Section Soundness.

Variable p : problem.
Variables a b y : nat -> R.
Variables F1 F2 : vector.
Variable FW : list want.
Variable FO : Z.
Hypothesis HA : forall k, active (a k) (at_ F1 k).
Hypothesis HC : forall k, nth k (rough p) true = false -> a k = 0%R \/ a k = 1%R.
Hypothesis HB : forall k u, nth_error (units p) k = Some u ->
  active2 (y k) (at_ F2 k) (through u) a /\ b k = clip (y k).

Definition verdict : Prop :=
  match judge (updates p) (map Some FW) FO with
  | Unread => True
  | Value new => forall k, (k < size p)%nat -> (code FO k + added k (units p) b = code new k)%R
  | Bad => False
  end.

Record invariant (pre1 pre2 : vector) (ws : list want) (o : Z) (path : list cell) (s : open_state) : Prop := {
  inv_first : good1 a pre1 (first s);
  inv_second : forall k v, nth_error (second s) k = Some (Some v) -> v = at_ pre2 k;
  inv_total : forall k, (IZR (nth k (total s) 0%Z) + open_added k (units p) (second s) b = added k (units p) b)%R;
  inv_wants : good_wants (updates p) (todo s) ws path;
  inv_old : old s = o
}.

Lemma settle_sound : forall pre1 pre2 ws o path af s,
  (forall k, contains (addi (at_ pre1 k) (at_ (rest1 af) k)) (at_ F1 k)) ->
  (forall k, contains (addi (at_ pre2 k) (at_ (rest2 af) k)) (at_ F2 k)) ->
  (forall i j, nth j (nth i (complete af) []) false = true -> Forall (fun c => nth j (fst (asks_of i c)) None = None) path) ->
  (forall i w, nth_error ws i = Some w -> nth_error FW i = Some (foldw i path w)) ->
  invariant pre1 pre2 ws o path s ->
  match settle p af s with
  | None => judge (updates p) (map Some FW) FO = Unread
  | Some s' => invariant pre1 pre2 ws o path s'
  end.
Proof.
  intros pre1 pre2 ws o path af s B1 B2 C W [I1 I2 I3 I4 I5]. unfold settle.
  pose proof (good_wants_settle _ _ _ _ _ I4 C) as G.
  set (ss := settle_wants (complete af) (updates p) (todo s)) in *.
  destruct (existsb raises (firstn (length (updates p)) ss)) eqn:E.
  - apply existsb_exists in E. destruct E as (w & IW & R).
    apply In_nth_error in IW. destruct IW as [i Hi].
    assert (Li : (i < length (updates p))%nat).
    { assert (i < length (firstn (length (updates p)) ss))%nat by (apply nth_error_Some; congruence).
      rewrite firstn_length in H. lia. }
    assert (Hs : nth_error ss i = Some w).
    { rewrite <- Hi. now apply nth_error_first. }
    destruct (nth_error (updates p) i) as [u |] eqn:U; [| apply nth_error_None in U; lia].
    destruct G as [GL G].
    destruct (nth_error ws i) as [w0 |] eqn:Ew.
    2: { apply nth_error_None in Ew. assert (i < length ss)%nat by (apply nth_error_Some; congruence). lia. }
    specialize (G i u w w0 U Hs Ew). destruct w as [[[tests form] q] |]; [| discriminate].
    simpl in R. destruct q; [| discriminate]. destruct G as (_ & Q & G).
    unfold judge.
    assert (S : fst (scan (updates p) (map Some FW)) = true).
    { apply (scan_raises (updates p) FW i u (foldw i path w0)); auto.
      - apply (rel_raises tests (tests_of w0)); auto. apply foldw_leads.
      - now apply foldw_poisoned. }
    destruct (scan (updates p) (map Some FW)) as [q l]. simpl in S. now rewrite S.
  - pose proof (good1_settle a F1 HA pre1 (rest1 af) (first s) B1 I1) as G1.
    destruct (settle2 (on_stats settle1 (rest1 af) (first s)) (rough p) (units p) (rest2 af) (second s) (total s))
      as [s2 t2] eqn:S2.
    destruct (settle2_sound p a F1 HA HC (units p) pre1 _ _ _ _ pre2 (at_ F2) y b s2 t2 G1 S2 HB B2 I2) as (J1 & J2 & J3).
    constructor; simpl; auto.
    + now apply good1_forget.
    + intros k. rewrite J2. apply I3.
Qed.

Lemma follow_none : forall vars path af levels, build p vars = (af, levels) ->
  follow state cell levels path None = None.
Proof.
  induction vars as [| cells vars IH]; intros path af levels B; simpl in B.
  - injection B as _ <-. reflexivity.
  - destruct (build p vars) as [af0 levels0]. injection B as _ <-. destruct path; simpl; auto.
    apply (IH path af0 levels0 eq_refl).
Qed.

Lemma follow_sound : forall vars path, Forall2 (fun cells c => In c cells) vars path ->
  forall af levels pre1 pre2 ws o s, build p vars = (af, levels) ->
  fold_left (fun v c => addv v (into1 c)) path pre1 = F1 ->
  fold_left (fun v c => addv v (into2 c)) path pre2 = F2 ->
  fold_left (fun w c => addws (undefined c) w (asks c)) path ws = FW ->
  fold_left (fun o c => match own c with Some k => k | None => o end) path o = FO ->
  invariant pre1 pre2 ws o path s ->
  final p (follow state cell levels path (Some s)) = true -> verdict.
Proof.
  intros vars path P. induction P as [| cells c vars path I P IH];
    intros af levels pre1 pre2 ws o s B E1 E2 E3 E4 Inv Fin; simpl in B.
  - injection B as <- <-. simpl in *. subst. destruct Inv as [I1 I2 I3 I4 I5]. destruct I4 as [L G].
    assert (J : judge (updates p) (todo s) (old s) = judge (updates p) (map Some FW) (old s)).
    { unfold judge. rewrite (scan_settled (updates p) (todo s) FW L); auto. }
    unfold verdict. rewrite <- I5. rewrite J in Fin. destruct (judge (updates p) (map Some FW) (old s)) as [| new |]; auto; try discriminate.
    apply andb_true_iff in Fin. destruct Fin as [N C]. intros k K.
    unfold codes_agree in C. rewrite forallb_forall in C. specialize (C k).
    rewrite in_seq in C. specialize (C ltac:(lia)). apply Z.eqb_eq in C.
    rewrite <- I3, (open_added_none _ _ _ _ N), Rplus_0_r.
    unfold code. apply (f_equal IZR) in C. rewrite plus_IZR in C.
    destruct (old s =? Z.of_nat k), (new =? Z.of_nat k); simpl in C |- *; lra.
  - destruct (build p vars) as [af0 levels0] eqn:B0. injection B as <- <-. simpl in Fin, E1, E2, E3, E4.
    destruct (build_bounds p vars path af0 levels0 B0 P) as [Q1 Q2].
    pose proof (build_complete p vars path af0 levels0 B0 P) as Q3.
    set (s1 := {| first := on_stats add1 (into1 c) (first s); second := add2 (into2 c) (second s); total := total s;
      todo := add_wants (undefined c) (todo s) (asks c); old := match own c with Some k => k | None => old s end |}) in *.
    assert (Inv1 : invariant (addv pre1 (into1 c)) (addv pre2 (into2 c)) (addws (undefined c) ws (asks c))
      (match own c with Some k => k | None => o end) path s1).
    { destruct Inv as [I1 I2 I3 I4 I5]. constructor; simpl.
      - now apply good1_add.
      - intros k v H. rewrite add2_nth in H. destruct (nth_error (second s) k) as [[v0 |] |] eqn:E; try discriminate.
        simpl in H. injection H as <-. rewrite at_addv. now rewrite (I2 k v0 E).
      - intros k. rewrite open_added_add2. apply I3.
      - now apply good_wants_add.
      - now rewrite I5. }
    assert (Sound := settle_sound _ _ _ _ _ af0 s1
      (fun k => ltac:(rewrite <- E1; apply Q1)) (fun k => ltac:(rewrite <- E2; apply Q2)) Q3
      (fun i w H => ltac:(rewrite <- E3, wants_nth, H; reflexivity)) Inv1).
    unfold advance in Fin. fold s1 in Fin. destruct (settle p af0 s1) as [s' |].
    + eapply IH; eauto.
    + unfold verdict. now rewrite Sound.
Qed.

End Soundness.

Theorem check_variable_sound : forall p, check_variable p = true -> correct p.
Proof.
  intros p H path P a b y A B. unfold check_variable in H.
  destruct (build p (variables p)) as [af levels] eqn:Bu. apply andb_true_iff in H. destruct H as [T W].
  destruct (build_bounds p _ path af levels Bu P) as [Q1 Q2].
  pose proof (build_complete p _ path af levels Bu P) as Q3.
  assert (HC : forall k, nth k (rough p) true = false -> a k = 0%R \/ a k = 1%R).
  { intros k R. unfold tidy in T. apply andb_true_iff in T. destruct T as [T1 T2].
    assert (E : let '(l, h, f) := at_ (sum1 p path) k in (f = false -> l = h) /\ (f = true -> nth k (rough p) true = true)).
    { unfold sum1. assert (G : forall l v, (forall c, In c l -> tidy_vector (rough p) (into1 c) = true) ->
        (let '(x, h, f) := at_ v k in (f = false -> x = h) /\ (f = true -> nth k (rough p) true = true)) ->
        let '(x, h, f) := at_ (fold_left (fun v c => addv v (into1 c)) l v) k in
        (f = false -> x = h) /\ (f = true -> nth k (rough p) true = true)).
      { induction l as [| c l IH]; intros v Hc Hv; simpl; auto. apply IH; [intros; apply Hc; now right |].
        rewrite at_addv. pose proof (tidy_at (into1 c) (rough p) k (Hc c (or_introl eq_refl))) as Ht.
        destruct (at_ v k) as [[x h] f]. destruct (at_ (into1 c) k) as [[x' h'] f']. simpl.
        destruct Hv as [V1 V2]. destruct Ht as [T3 T4]. rewrite orb_false_iff, orb_true_iff. split.
        - intros [F F']. rewrite V1, T3; auto.
        - intros [F | F]; auto. }
      apply G.
      - intros c I. clear - T2 P I. rewrite forallb_forall in T2.
        induction P as [| cells d vars path J P IH]; [contradiction |].
        destruct I as [-> | I].
        + specialize (T2 cells (or_introl eq_refl)). rewrite forallb_forall in T2. auto.
        + apply IH; auto. intros x X. apply T2. now right.
      - now apply tidy_at. }
    destruct (A k) as (z & Z & ->). destruct (at_ (sum1 p path) k) as [[l h] f]. destruct E as [E1 E2].
    destruct f; [rewrite E2 in R by auto; discriminate |]. rewrite <- E1 in Z by auto. simpl in Z.
    replace z with (IZR l) by lra. rewrite clip_is_threshold. destruct (1 <=? l); auto. }
  assert (Fol : final p (follow state cell levels path (start p af)) = true).
  { apply (walk_sound state cell state_eqb state_eqb_sound hash_state (final p) levels [start p af] W).
    - now left.
    - clear - Bu P. revert af levels Bu. induction P as [| cells c vars path I P IH]; intros af levels Bu; simpl in Bu.
      + injection Bu as _ <-. constructor.
      + destruct (build p vars) as [af0 levels0]. injection Bu as _ <-. constructor; [exact I |]. eapply IH. reflexivity. }
  assert (Inv0 : invariant p a b (biases1 p) (biases2 p) (begins p) (-1) path
    {| first := map Open (biases1 p); second := start2 (units p) (biases2 p); total := [];
       todo := map Some (begins p); old := -1 |}).
  { constructor; simpl; auto.
    - intros k x H. rewrite nth_error_map in H. destruct (nth_error (biases1 p) k) eqn:E; [| discriminate].
      injection H as <-. unfold at_. symmetry. now apply nth_error_nth.
    - intros k v H. apply start2_nth in H. now injection H.
    - intros k. rewrite open_added_start. destruct k; simpl; ring.
    - split; [apply map_length |]. intros i u s w U S V. rewrite nth_error_map, V in S. injection S as <-.
      destruct w as [[l f] q]. simpl. repeat split; auto. apply rel_refl.
      change l with (tests_of (l, f, q)) at 1. now rewrite foldw_length. }
  assert (Sound := settle_sound p a b y (sum1 p path) (sum2 p path) (wants p path) (old_value path) A HC B
    (biases1 p) (biases2 p) (begins p) (-1) path af _ (Q1 (biases1 p)) (Q2 (biases2 p)) Q3
    (fun i w H => ltac:(unfold wants; rewrite wants_nth, H; reflexivity)) Inv0).
  unfold start in Fol. destruct (settle p af _) as [s |] eqn:E.
  - exact (follow_sound p a b y (sum1 p path) (sum2 p path) (wants p path) (old_value path) A HC B (variables p) path P
      af levels (biases1 p) (biases2 p) (begins p) (-1) s Bu eq_refl eq_refl eq_refl eq_refl Sound Fol).
  - now rewrite Sound.
Qed.
