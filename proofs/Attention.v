(** * Lemma 2. Hard attention

    Informal statement.  A head computes w_j = exp(s_j - max s) for every key, excluded keys included with w_j = 0,
    then (Σ w_j v_j) / (Σ w_j).  Let every score be the best score M or at most M - G, where exp(-G) lies below half
    of the smallest subnormal number.  Then w_j is exactly 1 on the m best keys and exactly 0 elsewhere; both sums
    are exact, and the head's output is the average of the m best values, rounded once.  A null key whose score
    lies between mismatch and match, by G on either side, decides what is computed where nothing matches.

    Where it is used.  The heads of a block: kleene/checker.py proves the gap of the scores from the weights
    ([prove_hard_attention], [Format]), and continues with "the one selected position", "the rounded average" or "the
    null value" ([prove_copies], [prove_averages]).  The gap that the compilers use is 1024.

    What is not true.  The normalised weights w_j / Σ w are *not* 1/m: they are 1/m rounded, [softmax_weights],
    and three of them add up to more than 1 in float32 and bfloat16 ([thirds_exceed_one_float32]).  A network that
    normalises first and averages then would round each part.  Kleene's block therefore divides after the sum.
    Where a head averages one-hots, its parts are still rounded one by one, and their sum may exceed 1 by a
    trifle: [parts_exceed_little] and [sums_nearly_exact] bound it; the trifle of [Cases] is that bound. *)

From Coq Require Import ZArith Reals List Permutation Lia Lra Bool.
From Flocq Require Import Core Relative BinarySingleNaN.
From Kleene Require Import Sums.
Import ListNotations.

Local Open Scope R_scope.

Section Attention.

Variables p emin : Z.
Context (p_gt_0 : Prec_gt_0 p).
Hypothesis emin_le : (emin <= 0)%Z.
Variable rnd : R -> Z.
Context (valid : Valid_rnd rnd).

Notation fexp := (FLT_exp emin p).
Notation format := (generic_format radix2 fexp).
Notation rounded := (round radix2 fexp rnd).

(** The exponential function as computed.  Nothing else is asked of it. *)

Record exponential (ex : R -> R) : Prop := {
  exponential_0 : ex 0 = 1;
  exponential_underflows : forall x, format x -> exp x < bpow radix2 emin / 2 -> ex x = 0
}.

Variable ex : R -> R.
Hypothesis Hex : exponential ex.

(** A key: its score (None where it is excluded: minus infinity), and one dimension of its value. *)

Record key := { score : option R; value : R }.

Definition weight (M : R) (k : key) : R :=
  match score k with
  | Some s => ex (rounded (s - M))
  | None => 0
  end.

Definition best (M : R) (k : key) : bool :=
  match score k with
  | Some s => Req_bool s M
  | None => false
  end.

(** Every score is best, or below the best by the gap. *)

Definition gapped (M G : R) (k : key) : Prop :=
  match score k with
  | Some s => s = M \/ s <= M - G
  | None => True
  end.

Definition underflowing (G : R) : Prop := format G /\ exp (- G) < bpow radix2 emin / 2.

Lemma weight_is_hard : forall M G k, underflowing G -> gapped M G k ->
  weight M k = if best M k then 1 else 0.
Proof.
  intros M G k [FG EG]. unfold gapped, weight, best. destruct (score k) as [s |]; [| auto].
  intros H. destruct (Req_bool_spec s M) as [E | NE].
  - rewrite E. replace (M - M) with 0 by ring. rewrite round_0 by auto. apply (exponential_0 _ Hex).
  - destruct H as [H | H]; [contradiction |].
    apply (exponential_underflows _ Hex).
    + apply generic_format_round; auto with typeclass_instances.
    + apply Rle_lt_trans with (2 := EG).
      assert (L : rounded (s - M) <= - G).
      { rewrite <- (round_generic radix2 fexp rnd (- G)) by now apply generic_format_opp.
        apply round_le; auto with typeclass_instances. lra. }
      destruct L as [L | L]; [left; now apply exp_increasing | right; now rewrite L].
Qed.

(** ** The sums: any order, fused or not (lemma 1) *)

Definition selected (M : R) (keys : list key) : list key := filter (best M) keys.

Definition count (l : list key) : R := INR (length l).

Definition values (l : list key) : list R := map value l.

Lemma total_weighted : forall M G keys, underflowing G -> Forall (gapped M G) keys ->
  total (map (fun k => weight M k * value k) keys) = total (values (selected M keys)).
Proof.
  intros M G keys U H. induction H as [| k l Hk Hl IH]; [reflexivity |].
  simpl. rewrite IH, (weight_is_hard M G k U Hk). unfold selected. simpl.
  destruct (best M k); simpl; ring.
Qed.

Lemma size_weighted : forall M G keys, underflowing G -> Forall (gapped M G) keys ->
  size (map (fun k => weight M k * value k) keys) = size (values (selected M keys)).
Proof.
  intros M G keys U H. induction H as [| k l Hk Hl IH]; [reflexivity |].
  simpl. rewrite IH, (weight_is_hard M G k U Hk). unfold selected. simpl.
  destruct (best M k); simpl.
  - now rewrite Rmult_1_l.
  - rewrite Rmult_0_l, Rabs_R0. ring.
Qed.

Lemma total_weights : forall M G keys, underflowing G -> Forall (gapped M G) keys ->
  total (map (weight M) keys) = count (selected M keys) /\ size (map (weight M) keys) = count (selected M keys).
Proof.
  intros M G keys U H. induction H as [| k l Hk Hl [IH1 IH2]]; [split; reflexivity |].
  unfold count, selected in *. cbn [map filter]. simpl total. simpl size.
  rewrite IH1, IH2, (weight_is_hard M G k U Hk).
  destruct (best M k).
  - rewrite Rabs_R1. cbn [length]. rewrite S_INR. split; ring.
  - rewrite Rabs_R0. split; ring.
Qed.

Definition whole (x : R) : Prop := multiple 0 x.

Lemma whole_IZR : forall k, whole (IZR k).
Proof. intros k. exists k. simpl. ring. Qed.

Lemma whole_weighted : forall M G keys, underflowing G -> Forall (gapped M G) keys ->
  Forall (fun k => whole (value k)) keys ->
  Forall whole (map (fun k => weight M k * value k) keys).
Proof.
  intros M G keys U H V. induction H as [| k l Hk Hl IH]; [constructor |].
  inversion V as [| h t Vh Vt]; subst. simpl. constructor; [| now apply IH].
  rewrite (weight_is_hard M G k U Hk). destruct (best M k).
  - now rewrite Rmult_1_l.
  - rewrite Rmult_0_l. apply (whole_IZR 0).
Qed.

Lemma whole_weights : forall M G keys, underflowing G -> Forall (gapped M G) keys ->
  Forall whole (map (weight M) keys).
Proof.
  intros M G keys U H. induction H as [| k l Hk Hl IH]; [constructor |].
  simpl. constructor; [| apply IH].
  rewrite (weight_is_hard M G k U Hk). destruct (best M k); [apply (whole_IZR 1) | apply (whole_IZR 0)].
Qed.

(** The head's output: a machine adds up products, adds up weights, divides, rounds.  [num] and [den] are its
    orders of summation. *)

Definition attends (M : R) (keys : list key) (out : R) : Prop :=
  exists num den x y,
    Permutation (addends num) (map (fun k => weight M k * value k) keys) /\
    Permutation (addends den) (map (weight M) keys) /\
    computes (keeps p 0) num x /\ computes (keeps p 0) den y /\
    out = rounded (x / y).

Theorem hard_attention : forall M G keys out, underflowing G ->
  Forall (gapped M G) keys ->
  Forall (fun k => whole (value k)) keys ->
  size (values (selected M keys)) <= bpow radix2 p ->
  count (selected M keys) <= bpow radix2 p ->
  attends M keys out ->
  out = rounded (total (values (selected M keys)) / count (selected M keys)).
Proof.
  intros M G keys out U H V Bv Bc (num & den & x & y & Pn & Pd & Cx & Cy & ->).
  assert (P0 : (0 <= p)%Z) by (unfold Prec_gt_0 in p_gt_0; lia).
  assert (Ex : x = total (values (selected M keys))).
  { rewrite (sums_are_exact p 0 num x); auto.
    - rewrite (total_permutation _ _ Pn). now apply total_weighted with G.
    - apply Permutation_Forall with (1 := Permutation_sym Pn). now apply whole_weighted with G.
    - rewrite (size_permutation _ _ Pn), (size_weighted M G) by auto. now rewrite Z.add_0_r. }
  assert (Ey : y = count (selected M keys)).
  { destruct (total_weights M G keys U H) as [T S].
    rewrite (sums_are_exact p 0 den y); auto.
    - now rewrite (total_permutation _ _ Pd).
    - apply Permutation_Forall with (1 := Permutation_sym Pd). now apply whole_weights with G.
    - rewrite (size_permutation _ _ Pd), S. now rewrite Z.add_0_r. }
  now rewrite Ex, Ey.
Qed.

(** Exactly one best key: its value, exactly. *)

Corollary one_selected : forall M G keys k out, underflowing G ->
  Forall (gapped M G) keys ->
  Forall (fun k => whole (value k)) keys ->
  selected M keys = [k] ->
  Rabs (value k) <= bpow radix2 p ->
  attends M keys out ->
  out = value k.
Proof.
  intros M G keys k out U H V S B A.
  rewrite (hard_attention M G keys out U H V); auto; rewrite S; unfold count, values; simpl.
  - rewrite Rplus_0_r. replace (value k / 1) with (value k) by field.
    assert (W : whole (value k)).
    { rewrite Forall_forall in V. apply V.
      assert (I : In k (selected M keys)) by (rewrite S; now left).
      now apply filter_In in I. }
    apply (kept p 0); auto.
    + unfold Prec_gt_0 in p_gt_0; lia.
    + apply FLT_keeps; auto. unfold Prec_gt_0 in p_gt_0; lia.
    + now rewrite Z.add_0_r.
  - lra.
  - change 1 with (bpow radix2 0). apply bpow_le. unfold Prec_gt_0 in p_gt_0; lia.
Qed.

(** ** The weights as a softmax that is normalised first: 1/m rounded, and exactly 0 elsewhere *)

Theorem softmax_weights : forall M G keys den y k, underflowing G ->
  Forall (gapped M G) keys -> In k keys ->
  count (selected M keys) <= bpow radix2 p ->
  Permutation (addends den) (map (weight M) keys) -> computes (keeps p 0) den y ->
  rounded (weight M k / y) = if best M k then rounded (1 / count (selected M keys)) else 0.
Proof.
  intros M G keys den y k U H I Bc Pd Cy.
  assert (Ey : y = count (selected M keys)).
  { destruct (total_weights M G keys U H) as [T S].
    rewrite (sums_are_exact p 0 den y); auto.
    - now rewrite (total_permutation _ _ Pd).
    - unfold Prec_gt_0 in p_gt_0; lia.
    - apply Permutation_Forall with (1 := Permutation_sym Pd). now apply whole_weights with G.
    - rewrite (size_permutation _ _ Pd), S. now rewrite Z.add_0_r. }
  rewrite Forall_forall in H.
  rewrite (weight_is_hard M G k U (H k I)), Ey. destruct (best M k); auto.
  unfold Rdiv. rewrite Rmult_0_l. apply round_0; auto.
Qed.

(** ** The null key

    [null] is a key with score N.  Keys that match have the score S, above N by the gap; keys that do not are below
    N by the gap. *)

Definition matches (S : R) (k : key) : bool := best S k.

Definition told_apart (S N G : R) (k : key) : Prop :=
  match score k with
  | Some s => s = S \/ s <= N - G
  | None => True
  end.

Lemma filter_none : forall {A} (f : A -> bool) l, (forall x, In x l -> f x = false) -> filter f l = [].
Proof.
  induction l as [| a l IH]; simpl; auto. intros H. rewrite H by now left. apply IH. auto.
Qed.

Lemma underflowing_pos : forall G, underflowing G -> 0 < G.
Proof.
  intros G [_ E]. destruct (Rlt_le_dec 0 G) as [L | L]; auto. exfalso.
  assert (1 <= exp (- G)).
  { destruct L as [L | ->].
    - left. rewrite <- exp_0. apply exp_increasing. lra.
    - rewrite Ropp_0, exp_0. lra. }
  assert (bpow radix2 emin <= bpow radix2 0) by now apply bpow_le.
  simpl in *. lra.
Qed.

Theorem null_key_matched : forall S N G null keys out, underflowing G -> N <= S - G -> score null = Some N ->
  Forall (told_apart S N G) keys ->
  Forall (fun k => whole (value k)) (null :: keys) ->
  size (values (selected S keys)) <= bpow radix2 p ->
  count (selected S keys) <= bpow radix2 p ->
  attends S (null :: keys) out ->
  out = rounded (total (values (selected S keys)) / count (selected S keys)).
Proof.
  intros S N G null keys out U HN Hs T V Bv Bc A.
  pose proof (underflowing_pos G U) as PG.
  assert (E : selected S (null :: keys) = selected S keys).
  { unfold selected. simpl. unfold best at 1. rewrite Hs.
    destruct (Req_bool_spec N S); auto. exfalso; lra. }
  rewrite <- E in *. apply hard_attention with G; auto.
  constructor.
  - unfold gapped. rewrite Hs. lra.
  - apply Forall_impl with (2 := T). intros k. unfold told_apart, gapped. destruct (score k); auto. lra.
Qed.

Theorem null_key_unmatched : forall S N G null keys out, underflowing G -> N <= S - G -> score null = Some N ->
  Forall (told_apart S N G) keys ->
  Forall (fun k => whole (value k)) (null :: keys) ->
  selected S keys = [] ->
  Rabs (value null) <= bpow radix2 p ->
  attends N (null :: keys) out ->
  out = value null.
Proof.
  intros S N G null keys out U HN Hs T V E B A.
  pose proof (underflowing_pos G U) as PG.
  assert (L : Forall (fun k => match score k with Some s => s <= N - G | None => True end) keys).
  { rewrite Forall_forall in *. intros k I. specialize (T k I). unfold told_apart in T.
    destruct (score k) as [s |] eqn:K; auto. destruct T as [T | T]; auto. exfalso.
    assert (In k (selected S keys)) as J.
    { apply filter_In. split; auto. unfold best. rewrite K. now apply Req_bool_true. }
    rewrite E in J. contradiction. }
  apply one_selected with (M := N) (G := G) (keys := null :: keys); auto.
  - constructor.
    + unfold gapped. rewrite Hs. auto.
    + apply Forall_impl with (2 := L). intros k. unfold gapped. destruct (score k); auto.
  - unfold selected. simpl. unfold best at 1. rewrite Hs, Req_bool_true by auto. f_equal.
    apply filter_none. intros k I. rewrite Forall_forall in L. specialize (L k I). unfold best.
    destruct (score k); auto. apply Req_bool_false. lra.
Qed.

End Attention.

(** ** An exponential that is rounded to nearest is such a function *)

Theorem nearest_exponential : forall p emin choice, Prec_gt_0 p -> (emin <= 1 - p)%Z ->
  exponential p emin (fun x => round radix2 (FLT_exp emin p) (Znearest choice) (exp x)).
Proof.
  intros p emin choice P E. assert (P0 : (0 < p)%Z) by exact P. split.
  - rewrite exp_0. apply round_generic; auto with typeclass_instances.
    change 1 with (bpow radix2 0). apply generic_format_bpow. unfold FLT_exp. lia.
  - intros x _ H.
    set (r := round radix2 (FLT_exp emin p) (Znearest choice) (exp x)).
    assert (R0 : 0 <= r).
    { unfold r. rewrite <- (round_0 radix2 (FLT_exp emin p) (Znearest choice)).
      apply round_le; auto with typeclass_instances. left. apply exp_pos. }
    assert (F : generic_format radix2 (FLT_exp emin p) r) by (apply generic_format_round; auto with typeclass_instances).
    destruct R0 as [R0 | R0]; [exfalso | auto].
    assert (L : bpow radix2 emin <= r) by (apply generic_format_ge_bpow with (FLT_exp emin p); auto; intros; unfold FLT_exp; lia).
    pose proof (error_le_half_ulp radix2 (FLT_exp emin p) choice (exp x)) as B. fold r in B.
    rewrite ulp_FLT_small in B; auto.
    + rewrite Rabs_pos_eq in B by lra. lra.
    + rewrite Rabs_pos_eq by (left; apply exp_pos).
      apply Rlt_le_trans with (bpow radix2 emin); [pose proof (bpow_gt_0 radix2 emin); lra | apply bpow_le; lia].
Qed.

(** ** The gap: exp(-768) lies below half of the smallest subnormal number of float64, 2^(-1074) *)

Lemma pow_lt_exp : forall n, (1 + / 32) ^ (32 * n) <= exp (INR n).
Proof.
  intros n. rewrite pow_mult.
  assert (E : (1 + / 32) ^ 32 <= exp 1).
  { replace (exp 1) with (exp (/ 32) ^ 32).
    - apply pow_incr. split; [lra |]. left. apply exp_ineq1. lra.
    - rewrite <- (Rpower_pow 32) by apply exp_pos. unfold Rpower. rewrite ln_exp.
      f_equal. simpl. lra. }
  replace (exp (INR n)) with (exp 1 ^ n).
  - apply pow_incr. split; auto. apply pow_le. lra.
  - rewrite <- Rpower_pow by apply exp_pos. unfold Rpower. rewrite ln_exp. f_equal. ring.
Qed.

Lemma quotient_pow : forall n m, (2 ^ Z.of_nat m * 32 ^ Z.of_nat n <= 33 ^ Z.of_nat n)%Z -> 2 ^ m <= (1 + / 32) ^ n.
Proof.
  intros n m H.
  replace (1 + / 32) with (33 * / 32) by lra. rewrite Rpow_mult_distr, pow_inv.
  apply Rmult_le_reg_r with (32 ^ n); [apply pow_lt; lra |].
  rewrite Rmult_assoc, Rinv_l, Rmult_1_r by (apply pow_nonzero; lra).
  apply IZR_le in H. rewrite mult_IZR in H. rewrite <- !pow_IZR in H. exact H.
Qed.

Lemma exp_12 : bpow radix2 17 <= exp 12.
Proof.
  replace 12 with (INR 12) by (rewrite INR_IZR_INZ; reflexivity).
  apply Rle_trans with (2 := pow_lt_exp 12).
  change 17%Z with (Z.of_nat 17). rewrite <- (IZR_Zpower radix2) by lia.
  change (radix_val radix2) with 2%Z. rewrite <- pow_IZR.
  apply quotient_pow. apply Z.leb_le. vm_compute. reflexivity.
Qed.

Lemma doubled : forall x n, bpow radix2 n <= exp x -> bpow radix2 (n + n) <= exp (x + x).
Proof.
  intros x n H. rewrite bpow_plus, exp_plus. pose proof (bpow_ge_0 radix2 n).
  apply Rmult_le_compat; auto.
Qed.

Theorem exp_768 : exp (-768) < bpow radix2 (-1075).
Proof.
  assert (H : bpow radix2 1088 <= exp 768).
  { replace 768 with (12 + 12 + (12 + 12) + (12 + 12 + (12 + 12)) +
      (12 + 12 + (12 + 12) + (12 + 12 + (12 + 12))) +
      (12 + 12 + (12 + 12) + (12 + 12 + (12 + 12)) + (12 + 12 + (12 + 12) + (12 + 12 + (12 + 12)))) +
      (12 + 12 + (12 + 12) + (12 + 12 + (12 + 12)) + (12 + 12 + (12 + 12) + (12 + 12 + (12 + 12))) +
      (12 + 12 + (12 + 12) + (12 + 12 + (12 + 12)) + (12 + 12 + (12 + 12) + (12 + 12 + (12 + 12)))))) by lra.
    exact (doubled _ 544 (doubled _ 272 (doubled _ 136 (doubled _ 68 (doubled _ 34 (doubled _ 17 exp_12)))))). }
  assert (L : bpow radix2 1075 < exp 768) by (apply Rlt_le_trans with (2 := H); now apply bpow_lt).
  change (-768) with (IZR (Z.opp 768)). change (-1075)%Z with (Z.opp 1075).
  rewrite opp_IZR, exp_Ropp, bpow_opp.
  apply Rinv_lt_contravar; auto.
  apply Rmult_lt_0_compat; [apply bpow_gt_0 | apply exp_pos].
Qed.

Theorem gap_underflows : forall p emin, Prec_gt_0 p -> (10 <= p)%Z -> (-1074 <= emin <= 0)%Z ->
  underflowing p emin 768.
Proof.
  intros p emin P Hp He. split.
  - replace 768 with (IZR 3 * bpow radix2 8) by (simpl; lra).
    apply multiple_in_FLT; try lia. apply Z.le_trans with (2 ^ 10)%Z; [lia | apply Z.pow_le_mono_r; lia].
  - apply Rlt_le_trans with (1 := exp_768).
    replace (bpow radix2 emin / 2) with (bpow radix2 (emin - 1)).
    + apply bpow_le. lia.
    + rewrite <- (Z.add_opp_r emin 1), bpow_plus. simpl. lra.
Qed.

Theorem gap_underflows_1024 : forall p emin, Prec_gt_0 p -> (-1074 <= emin <= 0)%Z -> underflowing p emin 1024.
Proof.
  intros p emin P He. assert (P0 : (0 < p)%Z) by exact P. split.
  - change 1024 with (bpow radix2 10). apply generic_format_bpow. unfold FLT_exp. lia.
  - apply Rlt_trans with (exp (-768)); [apply exp_increasing; lra |].
    apply Rlt_le_trans with (1 := exp_768).
    replace (bpow radix2 emin / 2) with (bpow radix2 (emin - 1)).
    + apply bpow_le. lia.
    + rewrite <- (Z.add_opp_r emin 1), bpow_plus. simpl. lra.
Qed.

(** Any gap beyond (1 - emin) · ln 2 will do: [Format.gap] of kleene/checker.py takes this and one more. *)

Theorem gap_by_logarithm : forall p emin G, generic_format radix2 (FLT_exp emin p) G ->
  IZR (1 - emin) * ln 2 < G -> underflowing p emin G.
Proof.
  intros p emin G F H. split; auto.
  replace (bpow radix2 emin / 2) with (bpow radix2 (emin - 1)).
  - rewrite bpow_exp. apply exp_increasing. simpl. rewrite minus_IZR in *. lra.
  - rewrite <- (Z.add_opp_r emin 1), bpow_plus. simpl. lra.
Qed.

(** The gaps that kleene/checker.py asks for ([Format.gap]), by a bound of e from below. *)

Lemma e_from_below : 27129 / 10000 <= exp 1.
Proof.
  apply Rle_trans with ((1 + / 256) ^ 256).
  - replace (1 + / 256) with (257 * / 256) by lra. rewrite Rpow_mult_distr, pow_inv.
    apply Rmult_le_reg_r with (256 ^ 256); [apply pow_lt; lra |].
    rewrite Rmult_assoc, Rinv_l, Rmult_1_r by (apply pow_nonzero; lra).
    apply Rmult_le_reg_r with 10000; [lra |].
    replace (27129 / 10000 * 256 ^ 256 * 10000) with (27129 * 256 ^ 256) by field.
    rewrite !pow_IZR, <- !mult_IZR. apply IZR_le. apply Z.leb_le. vm_compute. reflexivity.
  - replace (exp 1) with (exp (/ 256) ^ 256).
    + apply pow_incr. split; [lra |]. left. apply exp_ineq1. lra.
    + rewrite <- (Rpower_pow 256) by apply exp_pos. unfold Rpower. rewrite ln_exp.
      f_equal. rewrite INR_IZR_INZ. simpl. lra.
Qed.

Lemma gap_by_power : forall p emin n, (0 <= 1 - emin)%Z ->
  generic_format radix2 (FLT_exp emin p) (INR n) ->
  (2 ^ (1 - emin) * 10000 ^ Z.of_nat n <? 27129 ^ Z.of_nat n)%Z = true ->
  underflowing p emin (INR n).
Proof.
  intros p emin n E F H. split; auto. apply Z.ltb_lt, IZR_lt in H.
  rewrite mult_IZR, <- !pow_IZR in H. change 2%Z with (radix_val radix2) in H.
  rewrite IZR_Zpower in H by auto.
  assert (X : (27129 / 10000) ^ n <= exp (INR n)).
  { replace (exp (INR n)) with (exp 1 ^ n).
    - apply pow_incr. split; [lra | apply e_from_below].
    - rewrite <- Rpower_pow by apply exp_pos. unfold Rpower. rewrite ln_exp. f_equal. ring. }
  assert (T : 0 < 10000 ^ n) by (apply pow_lt; lra).
  assert (L : bpow radix2 (1 - emin) < exp (INR n)).
  { apply Rlt_le_trans with (2 := X). unfold Rdiv. rewrite Rpow_mult_distr, pow_inv.
    apply Rmult_lt_reg_r with (1 := T). rewrite Rmult_assoc, Rinv_l, Rmult_1_r; lra. }
  rewrite exp_Ropp. replace (bpow radix2 emin / 2) with (/ bpow radix2 (1 - emin)).
  - apply Rinv_lt_contravar; auto. apply Rmult_lt_0_compat; [apply bpow_gt_0 | apply exp_pos].
  - rewrite <- bpow_opp. replace (- (1 - emin))%Z with (emin + -1)%Z by lia. rewrite bpow_plus. simpl. lra.
Qed.

Lemma whole_in_format : forall p emin n, (0 < p)%Z -> (emin <= 0)%Z -> (Z.of_nat n <= 2 ^ p)%Z ->
  generic_format radix2 (FLT_exp emin p) (INR n).
Proof.
  intros p emin n P E N. rewrite INR_IZR_INZ, <- (Rmult_1_r (IZR (Z.of_nat n))).
  change 1 with (bpow radix2 0). apply multiple_in_FLT; lia.
Qed.

Theorem gaps_of_the_formats :
  underflowing 53 (-1074) (INR 747) /\ underflowing 24 (-149) (INR 105) /\
  underflowing 8 (-133) (INR 94) /\ underflowing 11 (-24) (INR 19).
Proof.
  repeat split; try (apply whole_in_format; lia);
    [ apply (gap_by_power 53 (-1074) 747) | apply (gap_by_power 24 (-149) 105)
    | apply (gap_by_power 8 (-133) 94) | apply (gap_by_power 11 (-24) 19) ];
    try lia; try (apply whole_in_format; lia); vm_compute; reflexivity.
Qed.

(** ** The story of 3 × fl(1/3) > 1

    The prose lemma once said that an average of one-hots stays within [0, 1] in every sum.  It does not. *)

Definition third (prec emax : Z) (P : Prec_gt_0 prec) (E : Prec_lt_emax prec emax) : binary_float prec emax :=
  Bdiv mode_NE (binary_normalize prec emax P E mode_NE 1 0 false) (binary_normalize prec emax P E mode_NE 3 0 false).

Lemma third_value : forall prec emax P E s m e,
  B2SF (third prec emax P E) = SpecFloat.S754_finite s m e ->
  B2R (third prec emax P E) = IZR (cond_Zopp s (Zpos m)) * bpow radix2 e.
Proof.
  intros prec emax P E s m e H. destruct (third prec emax P E) as [| | | s' m' e' B]; try discriminate.
  injection H as -> -> ->. reflexivity.
Qed.

Theorem thirds_exceed_one_float32 : 3 * B2R (third 24 128 _ _) > 1.
Proof.
  rewrite (third_value 24 128 _ _ false 11184811 (-25)) by (vm_compute; reflexivity). simpl. lra.
Qed.

Theorem thirds_exceed_one_bfloat16 : 3 * B2R (third 8 128 _ _) > 1.
Proof.
  rewrite (third_value 8 128 _ _ false 171 (-9)) by (vm_compute; reflexivity). simpl. lra.
Qed.

Theorem thirds_stay_below_one_float64 : 3 * B2R (third 53 1024 _ _) < 1.
Proof.
  rewrite (third_value 53 1024 _ _ false 6004799503160661 (-54)) by (vm_compute; reflexivity). simpl. lra.
Qed.

(** ** How far averages of one-hots can lead a sum astray

    A head that selects several positions holds the average of their one-hots: dimension i holds c_i / m, rounded,
    where c_i of m selected positions have the value i.  [step] does not read such a head, but units do.  Each part
    stays in [0, 1] ([part_in_unit]), and a unit's sum over the parts exceeds its largest weight by no more than
    the factor 1 + 2^(-p) ([parts_exceed_little]).  The sum itself is then no longer exact: [sums_nearly_exact]
    bounds the error of every order of summation.  The units' gates keep a distance of one whole unit for both. *)

Section Parts.

Variables p emin : Z.
Context (p_gt_0 : Prec_gt_0 p).
Hypothesis emin_le : (emin <= 1 - 2 * p)%Z.
Variable choice : Z -> bool.

Notation fexp := (FLT_exp emin p).
Notation rounded := (round radix2 fexp (Znearest choice)).

Definition u : R := bpow radix2 (- p).

Theorem part_in_unit : forall x, 0 <= x <= 1 -> 0 <= rounded x <= 1.
Proof.
  intros x [L H]. assert (P0 : (0 < p)%Z) by exact p_gt_0. split.
  - rewrite <- (round_0 radix2 fexp (Znearest choice)). apply round_le; auto with typeclass_instances.
  - rewrite <- (round_generic radix2 fexp (Znearest choice) 1).
    + apply round_le; auto with typeclass_instances.
    + change 1 with (bpow radix2 0). apply generic_format_bpow. unfold FLT_exp. lia.
Qed.

Lemma relative : forall x, bpow radix2 (emin + p - 1) <= Rabs x -> Rabs (rounded x - x) <= u * Rabs x.
Proof.
  intros x H. pose proof (relative_error_N_FLT radix2 emin p p_gt_0 choice x H) as E.
  unfold u. replace (bpow radix2 (- p)) with (/ 2 * bpow radix2 (- p + 1)); auto.
  rewrite bpow_plus. simpl. lra.
Qed.

Theorem quotient_error : forall a q : Z, (0 < q)%Z -> (q <= 2 ^ p)%Z ->
  Rabs (rounded (IZR a / IZR q) - IZR a / IZR q) <= u * Rabs (IZR a / IZR q).
Proof.
  intros a q Q1 Q2. assert (P0 : (0 < p)%Z) by exact p_gt_0.
  destruct (Z.eq_dec a 0) as [-> | NZ].
  { unfold Rdiv. rewrite Rmult_0_l, round_0 by auto with typeclass_instances.
    rewrite Rminus_0_r, Rabs_R0. lra. }
  apply relative.
  assert (Q : 0 < IZR q) by now apply IZR_lt.
  unfold Rdiv. rewrite Rabs_mult, (Rabs_pos_eq (/ IZR q)) by (left; now apply Rinv_0_lt_compat).
  apply Rle_trans with (1 * / IZR q).
  - rewrite Rmult_1_l. apply Rle_trans with (bpow radix2 (- p)); [apply bpow_le; lia |].
    rewrite bpow_opp. apply Rinv_le_contravar; auto.
    rewrite <- IZR_Zpower by lia. now apply IZR_le.
  - apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat |].
    rewrite <- abs_IZR. apply IZR_le. lia.
Qed.

(** Weights w_i against counts c_i of m selected positions. *)

Theorem parts_exceed_little : forall W (parts : list (R * Z)) m, 0 <= W -> (0 < m <= 2 ^ p)%Z ->
  Forall (fun '(w, c) => w <= W /\ (0 <= c)%Z) parts ->
  (fold_right (fun '(_, c) s => c + s)%Z 0%Z parts <= m)%Z ->
  fold_right (fun '(w, c) s => w * rounded (IZR c / IZR m) + s) 0 parts <= W * (1 + u).
Proof.
  intros W parts m HW Hm F S.
  assert (M : 0 < IZR m) by (apply IZR_lt; lia).
  assert (U : 0 < u) by apply bpow_gt_0.
  apply Rle_trans with (W * (1 + u) * (IZR (fold_right (fun '(_, c) s => c + s)%Z 0%Z parts) / IZR m)).
  - clear S. induction F as [| [w c] l [Hw Hc] Hl IH]; simpl.
    + unfold Rdiv. rewrite Rmult_0_l. lra.
    + rewrite plus_IZR.
      assert (C : 0 <= IZR c / IZR m) by (apply Rmult_le_pos; [now apply IZR_le | left; now apply Rinv_0_lt_compat]).
      pose proof (quotient_error c m (proj1 Hm) (proj2 Hm)) as E. rewrite (Rabs_pos_eq _ C) in E.
      apply Rabs_le_inv in E.
      assert (N : 0 <= rounded (IZR c / IZR m)).
      { rewrite <- (round_0 radix2 fexp (Znearest choice)). apply round_le; auto with typeclass_instances. }
      assert (B : w * rounded (IZR c / IZR m) <= W * ((1 + u) * (IZR c / IZR m))).
      { apply Rle_trans with (W * rounded (IZR c / IZR m)).
        - now apply Rmult_le_compat_r.
        - apply Rmult_le_compat_l; lra. }
      unfold Rdiv in *. rewrite Rmult_plus_distr_r. lra.
  - rewrite <- (Rmult_1_r (W * (1 + u))) at 2. apply Rmult_le_compat_l.
    + apply Rmult_le_pos; lra.
    + apply Rmult_le_reg_r with (1 := M). unfold Rdiv.
      rewrite Rmult_assoc, Rinv_l, Rmult_1_r, Rmult_1_l by lra. now apply IZR_le.
Qed.

End Parts.

(** Roundings that are accurate on multiples of 2^g, and keep them such. *)

Definition accurate (d : R) (g : Z) (r : R -> R) : Prop :=
  forall z, multiple g z -> multiple g (r z) /\ Rabs (r z - z) <= d * Rabs z.

Theorem FLT_accurate : forall p emin g choice, Prec_gt_0 p -> (emin + p - 1 <= g)%Z ->
  accurate (u p) g (round radix2 (FLT_exp emin p) (Znearest choice)).
Proof.
  intros p emin g choice P G z [k ->]. assert (P0 : (0 < p)%Z) by exact P.
  destruct (Z.eq_dec k 0) as [-> | NZ].
  { rewrite Rmult_0_l, round_0, Rminus_0_r, Rabs_R0 by auto with typeclass_instances.
    split; [exists 0%Z; ring | lra]. }
  split.
  - destruct (Z.le_gt_cases (cexp radix2 (FLT_exp emin p) (IZR k * bpow radix2 g)) g) as [L | L].
    + exists k. apply round_generic; auto with typeclass_instances.
      change (IZR k * bpow radix2 g) with (F2R (Float radix2 k g)).
      apply generic_format_F2R. auto.
    + exists (Znearest choice (scaled_mantissa radix2 (FLT_exp emin p) (IZR k * bpow radix2 g)) *
              2 ^ (cexp radix2 (FLT_exp emin p) (IZR k * bpow radix2 g) - g))%Z.
      set (z := IZR k * bpow radix2 g) in *.
      unfold round at 1, F2R. simpl Fnum. simpl Fexp.
      rewrite mult_IZR, (IZR_Zpower radix2) by lia. rewrite Rmult_assoc, <- bpow_plus.
      do 2 f_equal. lia.
  - apply relative; auto.
    rewrite Rabs_mult, (Rabs_pos_eq (bpow radix2 g)) by apply bpow_ge_0.
    apply Rle_trans with (bpow radix2 g); [now apply bpow_le |].
    rewrite <- (Rmult_1_l (bpow radix2 g)) at 1. apply Rmult_le_compat_r; [apply bpow_ge_0 |].
    rewrite <- abs_IZR. apply IZR_le. lia.
Qed.

Fixpoint height (t : tree) : nat :=
  match t with
  | Number _ => 0
  | Product _ _ => 1
  | Sum s t => S (Nat.max (height s) (height t))
  | Fma _ _ t => S (height t)
  end.

Lemma growth_le : forall d n m, 0 <= d -> (n <= m)%nat -> (1 + d) ^ n - 1 <= (1 + d) ^ m - 1.
Proof. intros d n m D L. assert ((1 + d) ^ n <= (1 + d) ^ m) by (apply Rle_pow; [lra | auto]). lra. Qed.

Lemma growth_ge_0 : forall d n, 0 <= d -> 0 <= (1 + d) ^ n - 1.
Proof. intros d n D. assert (1 <= (1 + d) ^ n) by (apply pow_R1_Rle; lra). lra. Qed.

Theorem sums_nearly_exact : forall d g t x, 0 <= d ->
  Forall (multiple g) (addends t) ->
  computes (accurate d g) t x ->
  multiple g x /\ Rabs (x - total (addends t)) <= ((1 + d) ^ height t - 1) * size (addends t).
Proof.
  intros d g t x D M C.
  assert (Step : forall h (r : R -> R) y Y s, accurate d g r -> multiple g y -> 0 <= (1 + d) ^ h - 1 ->
    Rabs (y - Y) <= ((1 + d) ^ h - 1) * s -> Rabs Y <= s ->
    multiple g (r y) /\ Rabs (r y - Y) <= ((1 + d) ^ S h - 1) * s).
  { intros h r y Y s A My Hh E B. destruct (A y My) as [Mr Er]. split; auto.
    replace (r y - Y) with ((r y - y) + (y - Y)) by ring.
    pose proof (Rabs_triang (r y - y) (y - Y)).
    assert (Y1 : Rabs y <= Rabs Y + Rabs (y - Y)).
    { replace y with (Y + (y - Y)) at 1 by ring. apply Rabs_triang. }
    assert (d * Rabs y <= d * (Rabs Y + Rabs (y - Y))) by now apply Rmult_le_compat_l.
    assert (d * Rabs (y - Y) <= d * (((1 + d) ^ h - 1) * s)) by now apply Rmult_le_compat_l.
    assert (d * Rabs Y <= d * s) by now apply Rmult_le_compat_l.
    simpl. lra. }
  induction C as [x | r a b Hr | r s t x y Hr Cs IHs Ct IHt | r a b t x Hr Ct IHt]; simpl addends in *; simpl height.
  - split; [now inversion M | simpl].
    rewrite Rplus_0_r, Rminus_diag_eq by reflexivity. rewrite Rabs_R0. lra.
  - inversion M; subst. simpl total. simpl size. rewrite !Rplus_0_r.
    apply (Step 0%nat r (a * b) (a * b) (Rabs (a * b))); auto; simpl; try lra.
    rewrite Rminus_diag_eq by reflexivity. rewrite Rabs_R0. lra.
  - apply Forall_app in M. destruct M as [Ms Mt].
    destruct (IHs Ms) as [Mx Ex]. destruct (IHt Mt) as [My Ey].
    rewrite total_app, size_app.
    pose proof (size_ge_0 (addends s)). pose proof (size_ge_0 (addends t)).
    apply Step; auto.
    + now apply multiple_plus.
    + now apply growth_ge_0.
    + replace (x + y - (total (addends s) + total (addends t)))
        with ((x - total (addends s)) + (y - total (addends t))) by ring.
      apply Rle_trans with (1 := Rabs_triang _ _). rewrite Rmult_plus_distr_l.
      apply Rplus_le_compat.
      * apply Rle_trans with (1 := Ex). apply Rmult_le_compat_r; auto. apply growth_le; auto. lia.
      * apply Rle_trans with (1 := Ey). apply Rmult_le_compat_r; auto. apply growth_le; auto. lia.
    + apply Rle_trans with (1 := Rabs_triang _ _). apply Rplus_le_compat; apply total_le_size.
  - inversion M as [| h l Mh Ml]; subst. destruct (IHt Ml) as [Mx Ex].
    simpl total. simpl size. pose proof (size_ge_0 (addends t)). pose proof (Rabs_pos (a * b)).
    apply Step; auto.
    + now apply multiple_plus.
    + now apply growth_ge_0.
    + replace (a * b + x - (a * b + total (addends t))) with (x - total (addends t)) by ring.
      apply Rle_trans with (1 := Ex). apply Rmult_le_compat_l; [now apply growth_ge_0 | lra].
    + apply Rle_trans with (1 := Rabs_triang _ _). apply Rplus_le_compat_l. apply total_le_size.
Qed.

(** A unit whose sum would be at most -1 in whole numbers is silent for rounded averages too, as long as what they
    add ([excess]) and what the summation errs together stay below one unit. *)

Corollary rough_unit_is_silent : forall d g t x excess, 0 <= d ->
  Forall (multiple g) (addends t) ->
  computes (accurate d g) t x ->
  total (addends t) <= -1 + excess ->
  excess + ((1 + d) ^ height t - 1) * size (addends t) <= 1 ->
  x <= 0.
Proof.
  intros d g t x excess D M C B E.
  destruct (sums_nearly_exact d g t x D M C) as [_ H]. apply Rabs_le_inv in H. lra.
Qed.

(** The growth of the error in a form that is quick to compute: twice the number of operations times 2^(-p), as long as
    that number is at most 2^p. *)

Theorem growth_is_linear : forall d n, 0 <= d -> INR n * d <= 1 -> (1 + d) ^ n - 1 <= 2 * (INR n * d).
Proof.
  intros d n D H.
  assert (G : (1 + d) ^ n - 1 <= INR n * d + (INR n * d) ^ 2).
  { revert H. induction n as [| n IH]; intros H; [simpl; lra |].
    rewrite S_INR in *. pose proof (pos_INR n).
    assert (N : INR n * d <= 1) by nra. specialize (IH N). cbn [pow] in *. set (t := INR n) in *.
    assert (T0 : 0 <= t * d * d) by (repeat apply Rmult_le_pos; auto).
    assert (T : t * d * (t * d * d) <= t * d * d).
    { rewrite <- (Rmult_1_l (t * d * d)) at 2. now apply Rmult_le_compat_r. }
    assert (S : (1 + d) * (1 + d) ^ n <= (1 + d) * (1 + (t * d + t * d * (t * d * 1)))).
    { apply Rmult_le_compat_l; lra. }
    assert (0 <= d * d) by now apply Rmult_le_pos. lra. }
  assert (X : 0 <= INR n * d) by (apply Rmult_le_pos; auto; apply pos_INR).
  set (x := INR n * d) in *. assert (x ^ 2 <= x) by (simpl; nra). lra.
Qed.

(** What a computed sum over an undefined head differs from the sum over the true averages by: [ideal] is that sum, [S]
    the sum of sizes over true averages; the rounded parts add d · S, and the summation errs by [height] roundings. *)

Theorem trifle : forall d g t x S ideal, 0 <= d -> 0 <= S ->
  Forall (multiple g) (addends t) -> computes (accurate d g) t x ->
  size (addends t) <= (1 + d) * S -> Rabs (total (addends t) - ideal) <= d * S ->
  Rabs (x - ideal) <= ((1 + d) ^ (Datatypes.S (height t)) - 1) * S.
Proof.
  intros d g t x S ideal D P M C B E.
  destruct (sums_nearly_exact d g t x D M C) as [_ H].
  pose proof (growth_ge_0 d (height t) D) as G.
  replace (x - ideal) with ((x - total (addends t)) + (total (addends t) - ideal)) by ring.
  apply Rle_trans with (1 := Rabs_triang _ _).
  assert (((1 + d) ^ height t - 1) * size (addends t) <= ((1 + d) ^ height t - 1) * ((1 + d) * S))
    by now apply Rmult_le_compat_l.
  simpl. lra.
Qed.
