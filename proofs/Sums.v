(** * Lemma 1. Sums of whole numbers are exact, in every order

    Informal statement.  Let every addend of a sum be a whole number (or a whole multiple of one power of two),
    and let the addends' absolute values add up to at most 2^p.  Then a format of precision p computes the sum
    without any rounding error: in every order of summation, as any tree of partial sums, with fused
    multiply-add or without, with any rounding mode, with accumulators wider than the format, and with
    subnormal numbers flushed to zero or not.

    Where it is used.  Every product x · A + b of an MLP block, every attention score, the two sums of a softmax,
    the sum of a head's output and the residual stream: kleene/checker.py bounds the sum of absolute values and
    compares it with 2^p ([prove_exact_sums], [Selection], [length_limit]).  It rests on this lemma where it goes on
    with whole numbers instead of floating-point numbers. *)

From Coq Require Import ZArith Reals List Permutation Lia Lra.
From Flocq Require Import Core Core.FTZ BinarySingleNaN.

Local Open Scope R_scope.

(** ** Expressions: how hardware may add up products

    [Number x] is an addend that is in memory already; [Product a b] is a product that is rounded before it is
    added; [Sum s t] is an addition of two partial sums; [Fma a b t] adds a product to a partial sum and rounds
    once.  A tree of these is an order of summation. *)

Inductive tree : Type :=
| Number (x : R)
| Product (a b : R)
| Sum (s t : tree)
| Fma (a b : R) (t : tree).

Fixpoint addends (t : tree) : list R :=
  match t with
  | Number x => x :: nil
  | Product a b => a * b :: nil
  | Sum s t => addends s ++ addends t
  | Fma a b t => a * b :: addends t
  end.

Definition total (l : list R) : R := fold_right Rplus 0 l.
Definition size (l : list R) : R := fold_right (fun x s => Rabs x + s) 0 l.

(** The result that a machine may come to: every operation is rounded by a function of its own, one out of [P]. *)

Inductive computes (P : (R -> R) -> Prop) : tree -> R -> Prop :=
| computes_number x : computes P (Number x) x
| computes_product r a b : P r -> computes P (Product a b) (r (a * b))
| computes_sum r s t x y : P r -> computes P s x -> computes P t y -> computes P (Sum s t) (r (x + y))
| computes_fma r a b t x : P r -> computes P t x -> computes P (Fma a b t) (r (a * b + x)).

(** A rounding that keeps whole multiples of 2^e, up to 2^p of them.  That is all that matters here. *)

Definition keeps (p e : Z) (r : R -> R) : Prop :=
  forall k, (Z.abs k <= 2 ^ p)%Z -> r (IZR k * bpow radix2 e) = IZR k * bpow radix2 e.

Definition multiple (e : Z) (x : R) : Prop := exists k, x = IZR k * bpow radix2 e.

(** ** What keeps whole numbers: every format of at least this precision *)

Lemma multiple_in_FLT : forall p e emin k, (0 < p)%Z -> (emin <= e)%Z -> (Z.abs k <= 2 ^ p)%Z ->
  generic_format radix2 (FLT_exp emin p) (IZR k * bpow radix2 e).
Proof.
  intros p e emin k Hp He Hk.
  assert (K : (Z.abs k < 2 ^ p \/ Z.abs k = 2 ^ p)%Z) by lia.
  destruct K as [K | K].
  - apply generic_format_FLT. exists (Float radix2 k e); auto.
  - assert (G : generic_format radix2 (FLT_exp emin p) (bpow radix2 (p + e))).
    { apply generic_format_bpow. unfold FLT_exp. lia. }
    rewrite bpow_plus in G.
    assert (B : IZR (2 ^ p) = bpow radix2 p) by (rewrite <- IZR_Zpower by lia; reflexivity).
    rewrite <- B in G.
    destruct (Z.abs_eq_or_opp k) as [A | A]; rewrite A in K.
    + now rewrite K.
    + replace k with (- 2 ^ p)%Z by lia.
      rewrite opp_IZR, Ropp_mult_distr_l_reverse. now apply generic_format_opp.
Qed.

Lemma bpow_bounds_multiple : forall p e k, (0 <= p)%Z -> (Z.abs k <= 2 ^ p)%Z ->
  Rabs (IZR k * bpow radix2 e) <= bpow radix2 (p + e).
Proof.
  intros p e k Hp Hk.
  rewrite Rabs_mult, (Rabs_pos_eq (bpow radix2 e)) by apply bpow_ge_0.
  rewrite bpow_plus. apply Rmult_le_compat_r; [apply bpow_ge_0|].
  rewrite <- abs_IZR, <- IZR_Zpower by lia. now apply IZR_le.
Qed.

Theorem FLT_keeps : forall p q e emin rnd, Valid_rnd rnd -> (0 < p <= q)%Z -> (emin <= e)%Z ->
  keeps p e (round radix2 (FLT_exp emin q) rnd).
Proof.
  intros p q e emin rnd V Hp He k Hk.
  apply round_generic; auto.
  apply multiple_in_FLT; try lia.
  apply Z.le_trans with (1 := Hk). apply Z.pow_le_mono_r; lia.
Qed.

(** Subnormal numbers flushed to zero: the least normal number, 2^(emin + q - 1), must not exceed 2^e. *)

Theorem FTZ_keeps : forall p q e emin rnd, Valid_rnd rnd -> (0 < p <= q)%Z -> (emin + q - 1 <= e)%Z ->
  keeps p e (round radix2 (FTZ_exp emin q) rnd).
Proof.
  intros p q e emin rnd V Hp He k Hk.
  assert (Q : Prec_gt_0 q) by (unfold Prec_gt_0; lia).
  apply round_generic; auto.
  destruct (Z.eq_dec k 0) as [Z | NZ].
  { rewrite Z, Rmult_0_l. apply generic_format_0. }
  apply generic_inclusion_mag with (fexp1 := FLT_exp emin q).
  2: { apply multiple_in_FLT; try lia.
    apply Z.le_trans with (1 := Hk). apply Z.pow_le_mono_r; lia. }
  intros X.
  assert (M : (e < mag radix2 (IZR k * bpow radix2 e))%Z).
  { apply mag_gt_bpow. rewrite Rabs_mult, (Rabs_pos_eq (bpow radix2 e)) by apply bpow_ge_0.
    rewrite <- (Rmult_1_l (bpow radix2 e)) at 1.
    apply Rmult_le_compat_r; [apply bpow_ge_0|].
    rewrite <- abs_IZR. apply IZR_le. lia. }
  unfold FTZ_exp, FLT_exp.
  destruct (Zlt_bool_spec (mag radix2 (IZR k * bpow radix2 e) - q) emin); lia.
Qed.

(** ** The lemma *)

Lemma total_app : forall a b, total (a ++ b) = total a + total b.
Proof. induction a; simpl; intros; [ring | rewrite IHa; ring]. Qed.

Lemma size_app : forall a b, size (a ++ b) = size a + size b.
Proof. induction a; simpl; intros; [ring | rewrite IHa; ring]. Qed.

Lemma size_ge_0 : forall l, 0 <= size l.
Proof. induction l; simpl; [lra | pose proof (Rabs_pos a); lra]. Qed.

Lemma total_le_size : forall l, Rabs (total l) <= size l.
Proof.
  induction l; simpl.
  - rewrite Rabs_R0; lra.
  - pose proof (Rabs_triang a (total l)); lra.
Qed.

Lemma multiple_plus : forall e x y, multiple e x -> multiple e y -> multiple e (x + y).
Proof. intros e x y [k Hk] [m Hm]. exists (k + m)%Z. rewrite plus_IZR, Hk, Hm; ring. Qed.

Lemma multiple_total : forall e l, Forall (multiple e) l -> multiple e (total l).
Proof.
  induction 1; simpl.
  - exists 0%Z; ring.
  - now apply multiple_plus.
Qed.

Lemma kept : forall p e r x, (0 <= p)%Z -> keeps p e r -> multiple e x -> Rabs x <= bpow radix2 (p + e) -> r x = x.
Proof.
  intros p e r x Hp K [k ->] B. apply K.
  rewrite Rabs_mult, (Rabs_pos_eq (bpow radix2 e)) in B by apply bpow_ge_0.
  rewrite bpow_plus in B.
  apply Rmult_le_reg_r in B; [| apply bpow_gt_0].
  rewrite <- abs_IZR, <- IZR_Zpower in B by lia.
  now apply le_IZR in B.
Qed.

Theorem sums_are_exact : forall p e t x, (0 <= p)%Z ->
  Forall (multiple e) (addends t) ->
  size (addends t) <= bpow radix2 (p + e) ->
  computes (keeps p e) t x ->
  x = total (addends t).
Proof.
  intros p e t x Hp M B C.
  induction C as [x | r a b Hr | r s t x y Hr Cs IHs Ct IHt | r a b t x Hr Ct IHt]; simpl in *.
  - ring.
  - rewrite Rplus_0_r in B. inversion M; subst.
    rewrite (kept p e) by auto. ring.
  - apply Forall_app in M. destruct M as [Ms Mt].
    rewrite size_app in B. rewrite total_app.
    pose proof (size_ge_0 (addends s)). pose proof (size_ge_0 (addends t)).
    rewrite IHs, IHt by (auto; lra).
    apply (kept p e); auto.
    + apply multiple_plus; now apply multiple_total.
    + pose proof (total_le_size (addends s)). pose proof (total_le_size (addends t)).
      pose proof (Rabs_triang (total (addends s)) (total (addends t))). lra.
  - inversion M as [| h l Mh Ml]; subst.
    pose proof (Rabs_pos (a * b)). pose proof (size_ge_0 (addends t)).
    rewrite IHt by (auto; lra).
    apply (kept p e); auto.
    + apply multiple_plus; auto. now apply multiple_total.
    + pose proof (total_le_size (addends t)).
      pose proof (Rabs_triang (a * b) (total (addends t))). lra.
Qed.

(** Orders do not matter: two trees over the same addends, and whatever roundings they use, give one number. *)

Lemma total_permutation : forall l m, Permutation l m -> total l = total m.
Proof. induction 1; simpl; lra. Qed.

Lemma size_permutation : forall l m, Permutation l m -> size l = size m.
Proof. induction 1; simpl; lra. Qed.

Theorem every_order : forall p e s t x y, (0 <= p)%Z ->
  Permutation (addends s) (addends t) ->
  Forall (multiple e) (addends s) ->
  size (addends s) <= bpow radix2 (p + e) ->
  computes (keeps p e) s x -> computes (keeps p e) t y -> x = y.
Proof.
  intros p e s t x y Hp Q M B Cx Cy.
  rewrite (sums_are_exact p e s x) by auto.
  rewrite (sums_are_exact p e t y); auto.
  - now apply total_permutation.
  - now apply Permutation_Forall with (addends s).
  - rewrite <- (size_permutation _ _ Q); auto.
Qed.

(** ** The same for IEEE numbers themselves

    [binary_float prec emax] is Flocq's type of IEEE 754 numbers, with infinities and NaN.  Finite inputs that are
    whole numbers give finite results: nothing overflows. *)

Section Binary.

Variable prec emax : Z.
Context (prec_gt_0_ : Prec_gt_0 prec).
Context (prec_lt_emax_ : Prec_lt_emax prec emax).

Notation float := (binary_float prec emax).
Notation fexp := (SpecFloat.fexp prec emax).

Inductive program : Type :=
| PNumber (x : float)
| PProduct (m : mode) (a b : float)
| PSum (m : mode) (s t : program)
| PFma (m : mode) (a b : float) (t : program).

Fixpoint run (t : program) : float :=
  match t with
  | PNumber x => x
  | PProduct m a b => Bmult m a b
  | PSum m s t => Bplus m (run s) (run t)
  | PFma m a b t => Bfma m a b (run t)
  end.

Fixpoint inputs (t : program) : list float :=
  match t with
  | PNumber x => x :: nil
  | PProduct _ a b => a :: b :: nil
  | PSum _ s t => inputs s ++ inputs t
  | PFma _ a b t => a :: b :: inputs t
  end.

Fixpoint plan (t : program) : tree :=
  match t with
  | PNumber x => Number (B2R x)
  | PProduct _ a b => Product (B2R a) (B2R b)
  | PSum _ s t => Sum (plan s) (plan t)
  | PFma _ a b t => Fma (B2R a) (B2R b) (plan t)
  end.

Lemma fexp_FLT : forall m e, (3 - emax - prec <= e)%Z -> keeps prec e (round radix2 fexp (round_mode m)).
Proof.
  intros m e He. unfold SpecFloat.fexp, SpecFloat.emin.
  apply FLT_keeps; auto with typeclass_instances.
  unfold Prec_gt_0 in prec_gt_0_. lia.
Qed.

Theorem binary_sums_are_exact : forall e t, (3 - emax - prec <= e)%Z -> (prec + e < emax)%Z ->
  Forall (fun x => is_finite x = true) (inputs t) ->
  Forall (multiple e) (addends (plan t)) ->
  size (addends (plan t)) <= bpow radix2 (prec + e) ->
  is_finite (run t) = true /\ B2R (run t) = total (addends (plan t)).
Proof.
  intros e t He Hemax.
  assert (P : (0 <= prec)%Z) by (unfold Prec_gt_0 in prec_gt_0_; lia).
  assert (T : forall z, Rabs z <= bpow radix2 (prec + e) -> Rlt_bool (Rabs z) (bpow radix2 emax) = true).
  { intros z Hz. apply Rlt_bool_true. apply Rle_lt_trans with (1 := Hz). now apply bpow_lt. }
  assert (Q : forall m z, multiple e z -> Rabs z <= bpow radix2 (prec + e) ->
    round radix2 fexp (round_mode m) z = z).
  { intros m z Hz Bz. apply (kept prec e); auto. now apply fexp_FLT. }
  induction t as [x | m a b | m s IHs t IHt | m a b t IHt]; simpl; intros F M B.
  - inversion F; subst. split; auto. ring.
  - rewrite Rplus_0_r in B. inversion M as [| h l Mh Ml]; subst.
    inversion F as [| h l Fa Fl]; subst. inversion Fl as [| h l Fb Fn]; subst.
    pose proof (Bmult_correct prec emax _ _ m a b) as C.
    rewrite (Q m) in C by auto. rewrite (T _ B) in C. destruct C as (C1 & C2 & _).
    rewrite C1, C2, Fa, Fb. split; auto. ring.
  - apply Forall_app in F. destruct F as [Fs Ft]. apply Forall_app in M. destruct M as [Ms Mt].
    rewrite size_app in B. rewrite total_app.
    pose proof (size_ge_0 (addends (plan s))). pose proof (size_ge_0 (addends (plan t))).
    destruct IHs as [Gs Vs]; auto; [lra|]. destruct IHt as [Gt Vt]; auto; [lra|].
    pose proof (Bplus_correct prec emax _ _ m (run s) (run t) Gs Gt) as C.
    rewrite Vs, Vt in C.
    assert (B' : Rabs (total (addends (plan s)) + total (addends (plan t))) <= bpow radix2 (prec + e)).
    { pose proof (total_le_size (addends (plan s))). pose proof (total_le_size (addends (plan t))).
      pose proof (Rabs_triang (total (addends (plan s))) (total (addends (plan t)))). lra. }
    rewrite (Q m) in C by (auto; apply multiple_plus; now apply multiple_total).
    rewrite (T _ B') in C. destruct C as (C1 & C2 & _). auto.
  - inversion F as [| h l Fa Fl]; subst. inversion Fl as [| h l Fb Ft]; subst.
    inversion M as [| h l Mh Ml]; subst.
    pose proof (Rabs_pos (B2R a * B2R b)). pose proof (size_ge_0 (addends (plan t))).
    destruct IHt as [Gt Vt]; auto; [lra|].
    pose proof (Bfma_correct prec emax _ _ m a b (run t) Fa Fb Gt) as C. cbv zeta in C.
    rewrite Vt in C.
    assert (B' : Rabs (B2R a * B2R b + total (addends (plan t))) <= bpow radix2 (prec + e)).
    { pose proof (total_le_size (addends (plan t))).
      pose proof (Rabs_triang (B2R a * B2R b) (total (addends (plan t)))). lra. }
    rewrite (Q m) in C by (auto; apply multiple_plus; auto; now apply multiple_total).
    rewrite (T _ B') in C. destruct C as (C1 & C2 & _). auto.
Qed.

End Binary.

(** ** Kleene's three formats: whole numbers, e = 0 *)

#[global] Instance bfloat16_precision : Prec_gt_0 8. Proof. easy. Qed.
#[global] Instance float32_precision : Prec_gt_0 24. Proof. easy. Qed.
#[global] Instance float64_precision : Prec_gt_0 53. Proof. easy. Qed.
#[global] Instance bfloat16_exponent : Prec_lt_emax 8 128. Proof. easy. Qed.
#[global] Instance float32_exponent : Prec_lt_emax 24 128. Proof. easy. Qed.
#[global] Instance float64_exponent : Prec_lt_emax 53 1024. Proof. easy. Qed.

Definition bfloat16_sums := binary_sums_are_exact 8 128 _ _ 0.
Definition float32_sums := binary_sums_are_exact 24 128 _ _ 0.
Definition float64_sums := binary_sums_are_exact 53 1024 _ _ 0.
