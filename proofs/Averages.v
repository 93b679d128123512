(** * Lemma 5. Averages fall into the right bucket

    Informal statement.  A numerical head's output is P/q rounded, a sum of whole numbers over the number of selected
    positions, q at most the length N.  For a boundary m, let a/b be the largest fraction with a denominator up to N
    that is not above m, and c/d the smallest above it, found by continued fractions.  If a slope s and a whole offset
    o satisfy  s·(a/b + |a/b|·2^(-p)) ≤ o  and  o + 1 ≤ s·(c/d - |c/d|·2^(-p)),  then the computed unit
    clip(s·x - o) is exactly 0 for every average not above m and exactly 1 for every average above m.

    Where it is used.  kleene/checker.py checks the two inequalities for the weights' own slopes and offsets
    ([prove_averages], [prove_buckets], [neighbours]); lowering/averages.py finds them. *)

From Coq Require Import ZArith Reals List Lia Lra Bool Znumtheory.
From Flocq Require Import Core.
From Kleene Require Import Sums Attention Thresholds.
Import ListNotations.

Local Open Scope Z_scope.

(** ** Fractions with small denominators: nothing lies between neighbours *)

Lemma farey : forall a b c d P q, 0 < b -> 0 < d -> c * b - a * d = 1 ->
  a * q < P * b -> P * d < c * q -> b + d <= q.
Proof.
  intros a b c d P q B D E L H.
  assert (q = b * (c * q - P * d) + d * (P * b - a * q)).
  { replace (b * (c * q - P * d) + d * (P * b - a * q)) with (q * (c * b - a * d)) by ring. rewrite E. ring. }
  nia.
Qed.

(** The neighbours of m = mn/md among the fractions with denominators up to N. *)

Record neighbouring (N mn md : Z) (below above : Z * Z) : Prop := {
  below_positive : 0 < snd below;
  above_positive : 0 < snd above;
  unimodular : fst above * snd below - fst below * snd above = 1;
  nothing_between : N < snd below + snd above;
  below_is_not_above : fst below * md <= mn * snd below;
  above_is_above : mn * snd above < fst above * md
}.

Theorem separated : forall N mn md below above P q, 0 < md -> neighbouring N mn md below above -> 0 < q <= N ->
  (P * md <= mn * q -> P * snd below <= fst below * q) /\
  (mn * q < P * md -> fst above * q <= P * snd above).
Proof.
  intros N mn md [a b] [c d] P q M H Q. destruct H as [B D U S L A]. simpl in *. split; intros I.
  - destruct (Z.le_gt_cases (P * b) (a * q)); auto. exfalso.
    assert (b + d <= q); [| lia]. apply (farey a b c d P q); auto.
    apply Z.mul_lt_mono_pos_r with (1 := M). 
    assert (P * d * md <= mn * q * d) by nia. nia.
  - destruct (Z.le_gt_cases (c * q) (P * d)); auto. exfalso.
    assert (b + d <= q); [| lia]. apply (farey a b c d P q); auto.
    apply Z.mul_lt_mono_pos_r with (1 := M).
    assert (a * q * md <= mn * b * q) by nia. nia.
Qed.

(** ** Finding them *)

(** Where m is such a fraction itself, a/b, the next one solves c·b - a·d = 1 with the largest d. *)

Definition next (a b inverse N : Z) : (Z * Z) * (Z * Z) :=
  let q := N - (N + inverse) mod b in ((a, b), ((a * q + 1) / b, q)).

Theorem next_neighbours : forall a b inverse N, 0 < b <= N -> (a * inverse) mod b = 1 mod b ->
  neighbouring N a b (fst (next a b inverse N)) (snd (next a b inverse N)).
Proof.
  intros a b i N B I. unfold next. cbn [fst snd].
  set (q := N - (N + i) mod b).
  pose proof (Z.mod_pos_bound (N + i) b). 
  assert (Q : 0 < q) by (unfold q; lia).
  assert (D : (a * q + 1) mod b = 0).
  { unfold q. rewrite Zplus_mod, Zmult_mod, Zminus_mod, Zmod_mod, <- Zminus_mod.
    replace (N - (N + i)) with (- i) by ring.
    rewrite <- Zmult_mod, <- Zplus_mod. replace (a * - i + 1) with (1 - a * i) by ring.
    rewrite Zminus_mod, I, Z.sub_diag. now rewrite Z.mod_0_l by lia. }
  assert (E : (a * q + 1) / b * b = a * q + 1).
  { pose proof (Z.div_mod (a * q + 1) b). lia. }
  constructor; cbn [fst snd]; try lia.
Qed.

(** Otherwise by its continued fraction, as far as the denominators go. *)

Fixpoint loop (fuel : nat) (N p0 q0 p1 q1 n d : Z) : option ((Z * Z) * (Z * Z)) :=
  match fuel with
  | O => None
  | S fuel =>
      if q0 + n / d * q1 <=? N
      then loop fuel N p1 q1 (p0 + n / d * p1) (q0 + n / d * q1) d (n mod d)
      else
        let k := (N - q0) / q1 in
        let one := (p0 + k * p1, q0 + k * q1) in
        let two := (p1, q1) in
        Some (if fst one * snd two <? fst two * snd one then (one, two) else (two, one))
  end.

Definition continued (a b N : Z) : option ((Z * Z) * (Z * Z)) := loop (S (S (Z.to_nat b))) N 0 1 1 0 a b.

Record convergents (a b N p0 q0 p1 q1 n d : Z) : Prop := {
  determinant : p1 * q0 - p0 * q1 = 1 \/ p1 * q0 - p0 * q1 = -1;
  numerators : a = p1 * n + p0 * d;
  denominators : b = q1 * n + q0 * d;
  rest : 0 <= d < n;
  first_size : 0 <= q0 <= N;
  second_size : 1 <= q1 <= N
}.

Lemma rest_positive : forall a b N p0 q0 p1 q1 n d, rel_prime a b -> N < b ->
  convergents a b N p0 q0 p1 q1 n d -> 0 < d.
Proof.
  intros a b N p0 q0 p1 q1 n d G L [D E F R S1 S2].
  destruct (Z.eq_dec d 0) as [Z | NZ]; [| lia]. exfalso. subst d.
  rewrite Z.mul_0_r, Z.add_0_r in E, F.
  assert (n | 1).
  { destruct G as [_ _ G]. apply G; [exists p1 | exists q1]; lia. }
  apply Z.divide_1_r_nonneg in H; [| lia]. nia.
Qed.

Lemma loop_neighbours : forall fuel a b N p0 q0 p1 q1 n d, rel_prime a b -> N < b ->
  convergents a b N p0 q0 p1 q1 n d -> (Z.to_nat d < fuel)%nat ->
  exists below above, loop fuel N p0 q0 p1 q1 n d = Some (below, above) /\ neighbouring N a b below above.
Proof.
  induction fuel as [| fuel IH]; intros a b N p0 q0 p1 q1 n d G L C F; [lia |].
  pose proof (rest_positive _ _ _ _ _ _ _ _ _ G L C) as DP.
  destruct C as [D E1 E2 R S1 S2].
  pose proof (Z.div_mod n d). pose proof (Z.mod_pos_bound n d).
  assert (K1 : 1 <= n / d) by (apply Z.div_le_lower_bound; lia).
  cbn [loop]. destruct (Z.leb_spec (q0 + n / d * q1) N) as [I | I].
  - apply IH; auto.
    + constructor; auto; try lia; try nia.
    + assert ((Z.to_nat (n mod d) < Z.to_nat d)%nat) by (apply Z2Nat.inj_lt; lia). lia.
  - set (k := (N - q0) / q1).
    pose proof (Z.div_mod (N - q0) q1). pose proof (Z.mod_pos_bound (N - q0) q1).
    fold k in H1.
    assert (Kn : k < n / d) by nia.
    assert (K0 : 0 <= k) by (apply Z.div_pos; lia).
    assert (Kd : 0 < n - k * d) by nia.
    assert (Q : 0 < q0 + k * q1) by nia.
    assert (DET : p1 * (q0 + k * q1) - (p0 + k * p1) * q1 = p1 * q0 - p0 * q1) by ring.
    assert (A1 : a * q1 - p1 * b = - d * (p1 * q0 - p0 * q1)) by (rewrite E1, E2; ring).
    assert (A2 : a * (q0 + k * q1) - (p0 + k * p1) * b = (n - k * d) * (p1 * q0 - p0 * q1)) by (rewrite E1, E2; ring).
    cbn [fst snd].
    destruct (Z.ltb_spec ((p0 + k * p1) * q1) (p1 * (q0 + k * q1))); eexists; eexists; split; try reflexivity;
      constructor; cbn [fst snd]; nia.
Qed.

Theorem continued_neighbours : forall a b N, rel_prime a b -> 1 <= N < b ->
  exists below above, continued a b N = Some (below, above) /\ neighbouring N a b below above.
Proof.
  intros a b N G L. unfold continued.
  replace (loop (S (S (Z.to_nat b))) N 0 1 1 0 a b) with (loop (S (Z.to_nat b)) N 1 0 (a / b) 1 b (a mod b)).
  - apply (loop_neighbours (S (Z.to_nat b)) a b N); auto; try lia.
    + pose proof (Z.div_mod a b). pose proof (Z.mod_pos_bound a b). constructor; lia.
    + pose proof (Z.mod_pos_bound a b). assert (a mod b < b) by lia. apply Nat.lt_succ_r.
      apply Z2Nat.inj_le; lia.
  - assert (Unfold : forall fuel p0 q0 p1 q1 n d, q0 + n / d * q1 <= N ->
      loop (S fuel) N p0 q0 p1 q1 n d = loop fuel N p1 q1 (p0 + n / d * p1) (q0 + n / d * q1) d (n mod d)).
    { intros. cbn [loop]. destruct (Z.leb_spec (q0 + n / d * q1) N); [reflexivity | lia]. }
    rewrite (Unfold (S (Z.to_nat b))) by lia. f_equal; lia.
Qed.

(** kleene/checker.py finds the same neighbours by a walk down the Stern–Brocot tree, in leaps.  Whatever the leaps, what
    it ends with is right: the ends stay unimodular and on their sides of m. *)

Definition lower_leap (mn md : Z) (below above : Z * Z) : Z :=
  (mn * snd below - fst below * md) / (fst above * md - mn * snd above).

Definition upper_leap (mn md : Z) (below above : Z * Z) : Z :=
  (fst above * md - mn * snd above - 1) / (mn * snd below - fst below * md).

Inductive descends (N mn md : Z) : Z * Z -> Z * Z -> Prop :=
| descends_start : descends N mn md (mn / md, 1) (mn / md + 1, 1)
| descends_lower : forall a b c d k, descends N mn md (a, b) (c, d) -> 1 <= k ->
    k <= lower_leap mn md (a, b) (c, d) -> descends N mn md (a + k * c, b + k * d) (c, d)
| descends_upper : forall a b c d k, descends N mn md (a, b) (c, d) -> 1 <= k ->
    mn * b = a * md \/ k <= upper_leap mn md (a, b) (c, d) -> descends N mn md (a, b) (c + k * a, d + k * b).

Theorem stern_brocot_neighbours : forall N mn md below above, 0 < md -> descends N mn md below above ->
  N < snd below + snd above -> neighbouring N mn md below above.
Proof.
  intros N mn md below above M D E.
  assert (I : 0 < snd below /\ 0 < snd above /\ fst above * snd below - fst below * snd above = 1 /\
    fst below * md <= mn * snd below /\ mn * snd above < fst above * md).
  { clear E. induction D as [| a b c d k D IH K L | a b c d k D IH K L]; cbn [fst snd] in *.
    - pose proof (Z.div_mod mn md). pose proof (Z.mod_pos_bound mn md). repeat split; try lia; nia.
    - destruct IH as (B & C & U & V & W). unfold lower_leap in L. cbn [fst snd] in L.
      assert (P : 0 < c * md - mn * d) by lia.
      assert (Q : k * (c * md - mn * d) <= mn * b - a * md).
      { pose proof (Z.mul_div_le (mn * b - a * md) (c * md - mn * d) P). nia. }
      repeat split; try nia.
    - destruct IH as (B & C & U & V & W). unfold upper_leap in L. cbn [fst snd] in L.
      assert (Q : k * (mn * b - a * md) < c * md - mn * d).
      { destruct L as [L | L]; [nia |].
        destruct (Z.eq_dec (mn * b - a * md) 0) as [Z | NZ]; [nia |].
        assert (P : 0 < mn * b - a * md) by lia.
        pose proof (Z.mul_div_le (c * md - mn * d - 1) (mn * b - a * md) P). nia. }
      repeat split; try nia. }
  destruct I as (B & C & U & V & W). now constructor.
Qed.

(** ** Under rounding *)

Local Open Scope R_scope.

(** Monotone, and exact on the whole numbers up to 2^p; closed under composition, so that sums with zeros and
    conversions to wider formats and back are such too. *)

Definition rounding (p : Z) (r : R -> R) : Prop := (forall x y, x <= y -> r x <= r y) /\ keeps p 0 r.

Theorem FLT_rounding : forall p q emin rnd, Valid_rnd rnd -> (0 < p <= q)%Z -> (emin <= 0)%Z ->
  rounding p (round radix2 (FLT_exp emin q) rnd).
Proof.
  intros p q emin rnd V Q E. assert (P : Prec_gt_0 q) by (unfold Prec_gt_0; lia). split.
  - intros x y H. apply round_le; auto with typeclass_instances.
  - now apply FLT_keeps.
Qed.

Theorem rounding_compose : forall p r r', rounding p r -> rounding p r' -> rounding p (fun x => r' (r x)).
Proof.
  intros p r r' [M K] [M' K']. split; auto.
  intros k H. rewrite K by auto. now apply K'.
Qed.

Lemma rounding_Z : forall p r k, rounding p r -> (Z.abs k <= 2 ^ p)%Z -> r (IZR k) = IZR k.
Proof. intros p r k [_ K] H. specialize (K k H). simpl in K. now rewrite Rmult_1_r in K. Qed.

Section Buckets.

Variables p emin : Z.
Context (p_gt_0 : Prec_gt_0 p).
Hypothesis emin_le : (emin <= 1 - 2 * p)%Z.
Variable choice : Z -> bool.

Notation rounded := (round radix2 (FLT_exp emin p) (Znearest choice)).
Notation u := (u p).

Definition frac (f : Z * Z) : R := IZR (fst f) / IZR (snd f).

Lemma u_small : 0 < u < 1.
Proof.
  assert (P0 : (0 < p)%Z) by exact p_gt_0. unfold Attention.u. split; [apply bpow_gt_0 |].
  change 1 with (bpow radix2 0). apply bpow_lt. lia.
Qed.

Lemma upper : forall x y, x <= y -> x + u * Rabs x <= y + u * Rabs y.
Proof.
  intros x y H. pose proof u_small as U.
  assert (Rabs x - Rabs y <= Rabs (x - y)) by apply Rabs_triang_inv.
  rewrite (Rabs_minus_sym x y), (Rabs_pos_eq (y - x)) in H0 by lra. nra.
Qed.

Lemma lower : forall x y, x <= y -> x - u * Rabs x <= y - u * Rabs y.
Proof.
  intros x y H. pose proof u_small as U.
  assert (Rabs y - Rabs x <= Rabs (y - x)) by apply Rabs_triang_inv.
  rewrite (Rabs_pos_eq (y - x)) in H0 by lra. nra.
Qed.

Lemma frac_le : forall P q c d, (0 < q)%Z -> (0 < d)%Z -> (P * d <= c * q)%Z -> IZR P / IZR q <= IZR c / IZR d.
Proof.
  intros P q c d Q D H. apply IZR_lt in Q. apply IZR_lt in D. apply IZR_le in H. rewrite !mult_IZR in H.
  apply Rmult_le_reg_r with (IZR q); auto. apply Rmult_le_reg_r with (IZR d); auto.
  replace (IZR P / IZR q * IZR q * IZR d) with (IZR P * IZR d) by (field; lra).
  replace (IZR c / IZR d * IZR q * IZR d) with (IZR c * IZR q) by (field; lra). auto.
Qed.

(** The unit: slope times average (rounded by r1), less the offset (rounded by r2), clipped.  With a fused
    multiply-add r1 is the identity. *)

Theorem bucket : forall N mn md below above (slope : R) (offset : Z) r1 r2 P q,
  (0 < md)%Z -> neighbouring N mn md below above -> (0 < q <= N)%Z -> (N <= 2 ^ p)%Z ->
  0 < slope -> (Z.abs offset < 2 ^ p)%Z ->
  slope * (frac below + u * Rabs (frac below)) <= IZR offset ->
  IZR offset + 1 <= slope * (frac above - u * Rabs (frac above)) ->
  rounding p r1 \/ r1 = (fun x => x) -> rounding p r2 ->
  clip (r2 (r1 (slope * rounded (IZR P / IZR q)) - IZR offset)) = if (mn * q <? P * md)%Z then 1 else 0.
Proof.
  intros N mn md below above slope offset r1 r2 P q MD H Q NP S O LB LA R1 R2.
  destruct (separated N mn md below above P q MD H Q) as [SB SA].
  assert (P0 : (0 < p)%Z) by exact p_gt_0.
  assert (P2 : (1 <= 2 ^ p)%Z) by (assert (2 ^ 0 <= 2 ^ p)%Z by (apply Z.pow_le_mono_r; lia); lia).
  pose proof (quotient_error p emin p_gt_0 emin_le choice P q) as E.
  assert (E' := E ltac:(lia) ltac:(lia)). apply Rabs_le_inv in E'. clear E.
  set (z := IZR P / IZR q) in *.
  assert (Low : forall x (k : Z), (Z.abs k <= 2 ^ p)%Z -> x <= IZR k -> r1 x <= IZR k).
  { intros x k K L. destruct R1 as [R1 | ->]; auto. rewrite <- (rounding_Z p r1 k R1 K). now apply R1. }
  assert (High : forall x (k : Z), (Z.abs k <= 2 ^ p)%Z -> IZR k <= x -> IZR k <= r1 x).
  { intros x k K L. destruct R1 as [R1 | ->]; auto. rewrite <- (rounding_Z p r1 k R1 K). now apply R1. }
  destruct (Z.ltb_spec (mn * q) (P * md)) as [I | I].
  - specialize (SA I).
    assert (Z1 : frac above <= z).
    { apply frac_le; try lia. apply (above_positive _ _ _ _ _ H). }
    pose proof (lower _ _ Z1).
    assert (B : IZR (offset + 1) <= slope * rounded z).
    { rewrite plus_IZR. apply Rle_trans with (1 := LA). apply Rmult_le_compat_l; lra. }
    apply High in B; [| lia]. rewrite plus_IZR in B.
    assert (C : 1 <= r2 (r1 (slope * rounded z) - IZR offset)).
    { rewrite <- (rounding_Z p r2 1 R2) by lia. apply R2. lra. }
    unfold clip. rewrite Rmax_left, Rmin_right; lra.
  - specialize (SB I).
    assert (Z1 : z <= frac below).
    { apply frac_le; try lia. apply (below_positive _ _ _ _ _ H). }
    pose proof (upper _ _ Z1).
    assert (B : slope * rounded z <= IZR offset).
    { apply Rle_trans with (2 := LB). apply Rmult_le_compat_l; lra. }
    apply Low in B; [| lia].
    assert (C : r2 (r1 (slope * rounded z) - IZR offset) <= 0).
    { rewrite <- (rounding_Z p r2 0 R2) by lia. apply R2. lra. }
    unfold clip. rewrite Rmax_right, Rmin_left; lra.
Qed.

End Buckets.
