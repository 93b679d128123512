(** * Lemma 3. Thresholds, separable forms, write-then-clear

    Informal statement.  (a) clip(y) = min(max(y, 0), 1) on a whole number is the predicate y ≥ 1.  (b) A conjunction
    of k tests, each 0 or 1, is one unit; a unit for "form ≥ t" under k tests is silent as soon as one test fails.
    (c) A separable form, a sum of functions of single variables, is linear in one-hot codes.  (d) A function of a
    form is the sum of its change points: the units for the places where it changes add up to its column.
    (e) Writing the new one-hot and clearing the old one leaves exactly the new value; x - clip(x) = 0 clears every
    number in [0, 1], averages included, and -s·clip(x/s) every number up to s.

    Where it is used.  The MLP blocks: kleene/checker.py replaces clip(A·x + b) by a 0/1 decision on whole numbers
    ((a), by lemma 1 for the sums; [prove_scratch], [Cases]), reads tables from one-hot segments ((c), [Block]), and
    checks units that clear ((e), [prove_clearing], [prove_average_cleared]).  lowering/thresholds.py builds its units by
    (b), (d) and (e); the checker does not rely on that construction, it proves what the units compute (lemma 7). *)

From Coq Require Import ZArith Reals List Lia Lra Bool Sorted.
From Flocq Require Import Core.
From Kleene Require Import Sums.
Import ListNotations.

(** ** (a) Clipped units *)

Definition clip (y : R) : R := Rmin (Rmax y 0) 1.
Definition clipZ (y : Z) : Z := Z.min (Z.max y 0) 1.

Theorem clip_is_threshold : forall y : Z, clip (IZR y) = if (1 <=? y)%Z then 1%R else 0%R.
Proof.
  intros y. unfold clip. destruct (Z.leb_spec 1 y) as [H | H].
  - apply IZR_le in H. rewrite Rmax_left, Rmin_right; lra.
  - assert (L : (y <= 0)%Z) by lia. apply IZR_le in L. rewrite Rmax_right, Rmin_left; lra.
Qed.

Theorem clipZ_is_threshold : forall y : Z, clipZ y = if (1 <=? y)%Z then 1%Z else 0%Z.
Proof. intros y. unfold clipZ. destruct (Z.leb_spec 1 y); lia. Qed.

Theorem clip_is_clipZ : forall y : Z, clip (IZR y) = IZR (clipZ y).
Proof. intros y. rewrite clip_is_threshold, clipZ_is_threshold. now destruct (1 <=? y)%Z. Qed.

(** A computed unit is that predicate, in every order of summation (lemma 1). *)

Theorem computed_unit : forall p t x (y : Z), (0 <= p)%Z ->
  Forall (multiple 0) (addends t) -> (size (addends t) <= bpow radix2 p)%R ->
  total (addends t) = IZR y -> computes (keeps p 0) t x ->
  clip x = if (1 <=? y)%Z then 1%R else 0%R.
Proof.
  intros p t x y Hp M B T C.
  rewrite (sums_are_exact p 0 t x); auto.
  - rewrite T. apply clip_is_threshold.
  - now rewrite Z.add_0_r.
Qed.

(** (e) Clearing. *)

Theorem clear_unit_interval : forall x : R, (0 <= x <= 1)%R -> (x - clip x = 0)%R.
Proof. intros x H. unfold clip. rewrite Rmax_left, Rmin_left; lra. Qed.

Theorem clear_scaled : forall s x : R, (0 < s)%R -> (Rabs x <= s)%R ->
  (x - s * clip (x / s) + s * clip (- x / s) = 0)%R.
Proof.
  intros s x S B. apply Rabs_le_inv in B.
  assert (E : (s * (x / s) = x)%R) by (field; lra).
  assert (I : (0 < / s)%R) by now apply Rinv_0_lt_compat.
  destruct (Rle_lt_dec 0 x) as [P | N].
  - assert (0 <= x / s)%R by (apply Rmult_le_pos; lra).
    assert (x / s <= 1)%R by (apply Rmult_le_reg_l with s; lra).
    assert (- x / s <= 0)%R by (unfold Rdiv; rewrite Ropp_mult_distr_l_reverse; fold (x / s)%R; lra).
    unfold clip. rewrite (Rmax_left (x / s)), Rmin_left, (Rmax_right (- x / s)), Rmin_left by lra. lra.
  - assert (E' : (- x / s = - (x / s))%R) by (field; lra).
    assert (x / s < 0)%R by (apply Rmult_lt_reg_l with s; lra).
    assert (-1 <= x / s)%R by (apply Rmult_le_reg_l with s; lra).
    rewrite E'. unfold clip. rewrite (Rmax_right (x / s)), Rmin_left, (Rmax_left (- (x / s))), Rmin_left by lra. lra.
Qed.

Local Open Scope Z_scope.

(** ** (b) Conjunctions and gates *)

Definition sum (l : list Z) : Z := fold_right Z.add 0 l.

Definition bits (l : list Z) : Prop := Forall (fun g => g = 0 \/ g = 1) l.

Lemma sum_bits : forall l, bits l -> 0 <= sum l <= Z.of_nat (length l).
Proof. induction 1; simpl sum; simpl length; lia. Qed.

Lemma sum_bits_all : forall l, bits l -> (sum l = Z.of_nat (length l) <-> Forall (eq 1) l).
Proof.
  induction 1 as [| g l Hg Hl IH]; simpl sum; simpl length.
  - split; auto.
  - pose proof (sum_bits l Hl). split; intros H'.
    + constructor; [lia |]. apply IH. lia.
    + inversion H'; subst. apply IH in H3. lia.
Qed.

Definition all_hold (tests : list Z) : bool := sum tests =? Z.of_nat (length tests).

Lemma all_hold_spec : forall tests, bits tests -> (all_hold tests = true <-> Forall (eq 1) tests).
Proof. intros tests B. unfold all_hold. rewrite Z.eqb_eq. now apply sum_bits_all. Qed.

Theorem conjunction_unit : forall tests weight, bits tests -> 1 <= weight ->
  clipZ (weight * sum tests + (1 - weight * Z.of_nat (length tests))) = if all_hold tests then 1 else 0.
Proof.
  intros tests w B W. rewrite clipZ_is_threshold. unfold all_hold.
  pose proof (sum_bits tests B).
  destruct (Z.eqb_spec (sum tests) (Z.of_nat (length tests))) as [-> | N].
  - replace (_ + _) with 1 by ring. reflexivity.
  - destruct (Z.leb_spec 1 (w * sum tests + (1 - w * Z.of_nat (length tests)))); auto. nia.
Qed.

(** A threshold on a form under tests, as [chain] builds it: [far] and [gate] stretch, [high] bounds the form. *)

Theorem gated_threshold : forall tests f t far gate high, bits tests -> 1 <= far -> f <= high ->
  far * Z.max 1 (high - t + 1) <= gate ->
  clipZ (far * f + gate * sum tests + (1 - far * t - gate * Z.of_nat (length tests)))
  = if all_hold tests && (t <=? f) then 1 else 0.
Proof.
  intros tests f t far gate high B F H G. rewrite clipZ_is_threshold. unfold all_hold.
  pose proof (sum_bits tests B).
  destruct (Z.eqb_spec (sum tests) (Z.of_nat (length tests))) as [E | N]; cbn [andb].
  - replace (far * f + gate * sum tests + (1 - far * t - gate * Z.of_nat (length tests)))
      with (far * (f - t) + 1) by (rewrite E; ring).
    destruct (Z.leb_spec t f), (Z.leb_spec 1 (far * (f - t) + 1)); auto; nia.
  - assert (gate * (sum tests - Z.of_nat (length tests)) <= - gate) by nia.
    assert (far * (f - t) <= far * (high - t)) by nia.
    destruct (Z.leb_spec 1 (far * f + gate * sum tests + (1 - far * t - gate * Z.of_nat (length tests)))); auto.
    nia.
Qed.

(** ** (c) One-hot codes and separable forms *)

Definition onehot (v i : nat) : Z := if Nat.eqb v i then 1 else 0.

Definition dot (table : nat -> Z) (x : nat -> Z) (n : nat) : Z := sum (map (fun i => table i * x i) (seq 0 n)).

Lemma sum_app : forall a b, sum (a ++ b) = sum a + sum b.
Proof. induction a; simpl; intros; [reflexivity | rewrite IHa; lia]. Qed.

Lemma sum_zero : forall (f : nat -> Z) l, (forall i, In i l -> f i = 0) -> sum (map f l) = 0.
Proof. induction l; simpl; intros H; auto. rewrite H by now left. rewrite IHl; auto. Qed.

Theorem onehot_reads_table : forall table v n, (v < n)%nat -> dot table (onehot v) n = table v.
Proof.
  intros table v n H. unfold dot.
  replace n with (v + S (n - v - 1))%nat by lia.
  rewrite seq_app, map_app, sum_app. simpl seq. simpl map. simpl sum.
  rewrite sum_zero, sum_zero.
  - unfold onehot at 1. rewrite Nat.eqb_refl. lia.
  - intros i I. apply in_seq in I. unfold onehot. destruct (Nat.eqb_spec v i); lia.
  - intros i I. apply in_seq in I. unfold onehot. destruct (Nat.eqb_spec v i); lia.
Qed.

(** A state gives every variable a value below its size; a form is a constant and a table for each variable. *)

Theorem separable_form_is_linear : forall (vars : list nat) (sizes value : nat -> nat) (tables : nat -> nat -> Z) c,
  (forall v, In v vars -> (value v < sizes v)%nat) ->
  c + sum (map (fun v => dot (tables v) (onehot (value v)) (sizes v)) vars)
  = c + sum (map (fun v => tables v (value v)) vars).
Proof.
  intros vars sizes value tables c H. f_equal. f_equal. apply map_ext_in.
  intros v I. apply onehot_reads_table. auto.
Qed.

(** A test "the variable has one of these values" is a sum of dimensions, 0 or 1; or 1 less the other ones. *)

Theorem value_set_is_linear : forall (allowed : nat -> bool) v n, (v < n)%nat ->
  dot (fun i => if allowed i then 1 else 0) (onehot v) n = if allowed v then 1 else 0.
Proof. intros. now rewrite onehot_reads_table. Qed.

Theorem value_set_complement : forall (allowed : nat -> bool) v n, (v < n)%nat ->
  1 + dot (fun i => if allowed i then 0 else -1) (onehot v) n = if allowed v then 1 else 0.
Proof. intros. rewrite onehot_reads_table by auto. now destruct (allowed v). Qed.

(** ** (d) A function of a form is the sum of its change points

    The reachable values of a form, ascending: v, v1, v2, …, with a column for each (one entry of a column here).
    A unit at each later value adds the difference of its column and the one before it; the first column is added
    where all tests hold.  Equal neighbours need no unit: they add nothing. *)

Fixpoint chain (current : Z) (steps : list (Z * Z)) (f : Z) : Z :=
  match steps with
  | [] => 0
  | (t, column) :: rest => (column - current) * (if t <=? f then 1 else 0) + chain column rest f
  end.

Fixpoint ascending (v : Z) (steps : list (Z * Z)) : Prop :=
  match steps with
  | [] => True
  | (t, _) :: rest => v < t /\ ascending t rest
  end.

Lemma chain_above : forall steps v current f, ascending v steps -> f <= v -> chain current steps f = 0.
Proof.
  induction steps as [| [t column] rest IH]; simpl; intros v current f A L; auto.
  destruct A as [A1 A2]. destruct (Z.leb_spec t f); [lia |]. rewrite (IH t); auto; lia.
Qed.

Theorem change_points : forall steps v current f column, ascending v steps ->
  In (f, column) ((v, current) :: steps) -> current + chain current steps f = column.
Proof.
  induction steps as [| [t c] rest IH]; simpl; intros v current f column A I.
  - destruct I as [I | []]. injection I as -> ->. lia.
  - destruct A as [A1 A2]. destruct I as [I | I].
    + injection I as -> ->. destruct (Z.leb_spec t f); [lia |].
      rewrite (chain_above rest t) by (auto; lia). lia.
    + assert (t <= f).
      { clear - A2 I. revert t A2 I. revert c. induction rest as [| [t' c'] rest IH]; simpl; intros c t A2 I.
        - destruct I as [I | []]. injection I. lia.
        - destruct I as [I | I]; [injection I; lia |]. destruct A2 as [A A'].
          assert (t' <= f) by (apply (IH c' t'); auto). lia. }
      destruct (Z.leb_spec t f); [| lia].
      rewrite Z.mul_1_r.
      assert (c + chain c rest f = column).
      { apply (IH t); auto. }
      lia.
Qed.

(** The same as clipped units under tests: on where all tests hold, silent elsewhere. *)

Definition chain_units (tests : list Z) (f far high : Z) (gate : Z -> Z) :=
  fix units (current : Z) (steps : list (Z * Z)) : Z :=
    match steps with
    | [] => 0
    | (t, column) :: rest =>
        (column - current) *
        clipZ (far * f + gate t * sum tests + (1 - far * t - gate t * Z.of_nat (length tests))) +
        units column rest
    end.

Theorem chain_of_units : forall tests f far high gate steps v current column weight,
  bits tests -> 1 <= far -> 1 <= weight -> f <= high ->
  (forall t, far * Z.max 1 (high - t + 1) <= gate t) ->
  ascending v steps -> (all_hold tests = true -> In (f, column) ((v, current) :: steps)) ->
  current * clipZ (weight * sum tests + (1 - weight * Z.of_nat (length tests)))
  + chain_units tests f far high gate current steps
  = if all_hold tests then column else 0.
Proof.
  intros tests f far high gate steps v current column weight B F W H G A I.
  rewrite conjunction_unit by auto.
  assert (E : forall l c, chain_units tests f far high gate c l = if all_hold tests then chain c l f else 0).
  { induction l as [| [t x] l IH]; intros c; unfold chain_units; fold chain_units; cbn [chain].
    - now destruct (all_hold tests).
    - fold (chain_units tests f far high gate).
      rewrite (gated_threshold tests f t far (gate t) high), IH; auto.
      destruct (all_hold tests); simpl; lia. }
  rewrite E. destruct (all_hold tests).
  - rewrite Z.mul_1_r. apply change_points with v; auto.
  - lia.
Qed.

(** ** (e) Write, then clear: the residual stream after both holds exactly the new value's code *)

Theorem write_then_clear : forall (old new : nat) (guard : bool) (i : nat),
  onehot old i
  + (if guard then onehot new i else 0)                                   (* what the writing units add *)
  - (if guard then clipZ (onehot old i) else 0)                           (* one clearing unit a dimension *)
  = if guard then onehot new i else onehot old i.
Proof.
  intros old new guard i. rewrite clipZ_is_threshold. unfold onehot.
  destruct guard, (Nat.eqb old i), (Nat.eqb new i); reflexivity.
Qed.

(** One unit per transition, old to new. *)

Theorem old_to_new : forall (old new : nat) (i : nat),
  onehot old i + (onehot new i - onehot old i) = onehot new i.
Proof. intros. lia. Qed.
