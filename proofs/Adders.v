(** * Lemma 4. Adders

    Informal statement.  Let L = Σ c·w + C be a sum of words with whole coefficients.  With s_j the sum of everything
    below bit j (words and constant modulo 2^j) and T_j = ⌊s_j / 2^j⌋ the carry into bit j,

        bit j of L  =  Σ c·(bit j of w) + (bit j of C) + T_j - 2·T_(j+1),

    and T_j is a few thresholds on s_j: for a + b + carry it is one, for a - b it is one borrow.  A comparison of
    sums of words is one threshold, an equality two.  Two's complement and limbs with carries follow.

    Where it is used.  Words: lowering/words.py and lowering/thresholds.py build their units by it.  kleene/checker.py
    proves what the units of a word compute bit by bit ([Bits], [bit_of], [prove_comparisons]); it rests on
    [below_mod] and [word_of_low_bits] (bit j of a sum depends on the bits up to j alone) and on [comparison_reads_bits].

    What was not true.  The lowering left the last carry T_n out where a sum without modulus stays in range, and
    took it for the constant -⌊C / 2^n⌋.  That holds where every word has at most n bits ([last_carry_is_constant]).
    For the difference of wider words it does not ([last_carry_of_wide_words]): 8 - 7 written to a word of two bits.
    The lowering now computes that carry wherever a word is wider than its target. *)

From Coq Require Import ZArith List Lia Bool.
From Kleene Require Import Thresholds.
Import ListNotations.

Local Open Scope Z_scope.

Definition bit (j : Z) (x : Z) : Z := (x / 2 ^ j) mod 2.

Lemma bit_bounds : forall j x, 0 <= bit j x <= 1.
Proof. intros. unfold bit. pose proof (Z.mod_pos_bound (x / 2 ^ j) 2). lia. Qed.

Lemma pow2_pos : forall j, 0 <= j -> 0 < 2 ^ j.
Proof. intros. apply Z.pow_pos_nonneg; lia. Qed.

Lemma pow2_S : forall j, 0 <= j -> 2 ^ (j + 1) = 2 * 2 ^ j.
Proof. intros. rewrite Z.pow_add_r by lia. lia. Qed.

(** Bits from below: x mod 2^(j+1) = x mod 2^j + 2^j · bit j. *)

Lemma mod_pow2_S : forall j x, 0 <= j -> x mod 2 ^ (j + 1) = x mod 2 ^ j + 2 ^ j * bit j x.
Proof.
  intros j x J. pose proof (pow2_pos j J). rewrite pow2_S by auto. unfold bit.
  rewrite Z.mul_comm. apply Z.rem_mul_r; lia.
Qed.

(** A word of n bits is the sum of its bits. *)

Fixpoint word (n : nat) (bits : Z -> Z) : Z :=
  match n with
  | O => 0
  | S m => word m bits + 2 ^ Z.of_nat m * bits (Z.of_nat m)
  end.

Lemma word_of_low_bits : forall n x, word n (fun j => bit j x) = x mod 2 ^ Z.of_nat n.
Proof.
  intros n x. induction n as [| m IH].
  - simpl. now rewrite Z.mod_1_r.
  - simpl word. rewrite IH, Nat2Z.inj_succ. unfold Z.succ. now rewrite mod_pow2_S by lia.
Qed.

Theorem word_of_bits : forall n x, 0 <= x < 2 ^ Z.of_nat n -> word n (fun j => bit j x) = x.
Proof. intros n x H. rewrite word_of_low_bits. now apply Z.mod_small. Qed.

(** ** Sums of words *)

Definition terms := list (Z * Z). (* coefficient, word *)

Definition linear (f : Z -> Z) (t : terms) (c : Z) : Z := sum (map (fun '(k, w) => k * f w) t) + f c.

Definition value (t : terms) (c : Z) : Z := linear (fun x => x) t c.
Definition below (j : Z) : terms -> Z -> Z := linear (fun x => x mod 2 ^ j).
Definition carry (j : Z) (t : terms) (c : Z) : Z := below j t c / 2 ^ j.
Definition column (j : Z) : terms -> Z -> Z := linear (bit j).

Lemma linear_plus : forall f g h k t c, (forall x, f x = g x + k * h x) ->
  linear f t c = linear g t c + k * linear h t c.
Proof.
  intros f g h k t c H. unfold linear. rewrite H.
  assert (E : sum (map (fun '(k0, w) => k0 * f w) t) =
    sum (map (fun '(k0, w) => k0 * g w) t) + k * sum (map (fun '(k0, w) => k0 * h w) t)).
  { induction t as [| [q w] t IH]; simpl; [lia |]. rewrite IH, H. lia. }
  rewrite E. lia.
Qed.

Lemma below_S : forall j t c, 0 <= j -> below (j + 1) t c = below j t c + 2 ^ j * column j t c.
Proof. intros. apply linear_plus. intros. now apply mod_pow2_S. Qed.

Lemma below_mod : forall j t c, 0 <= j -> value t c mod 2 ^ j = below j t c mod 2 ^ j.
Proof.
  intros j t c J. pose proof (pow2_pos j J). unfold value, below.
  rewrite (linear_plus (fun x => x) (fun x => x mod 2 ^ j) (fun x => x / 2 ^ j) (2 ^ j)).
  - rewrite Z.mul_comm, Z.mod_add by lia. reflexivity.
  - intros x. pose proof (Z.div_mod x (2 ^ j)). lia.
Qed.

Lemma carry_S : forall j t c, 0 <= j -> carry (j + 1) t c = (carry j t c + column j t c) / 2.
Proof.
  intros j t c J. pose proof (pow2_pos j J). unfold carry. rewrite below_S, pow2_S by auto.
  rewrite (Z.mul_comm 2), <- Z.div_div by lia.
  f_equal. rewrite Z.mul_comm, Z.div_add by lia. reflexivity.
Qed.

Theorem adder : forall j t c, 0 <= j ->
  bit j (value t c) = column j t c + carry j t c - 2 * carry (j + 1) t c.
Proof.
  intros j t c J. pose proof (pow2_pos j J).
  rewrite carry_S by auto.
  assert (E : bit j (value t c) = (carry j t c + column j t c) mod 2).
  { unfold bit.
    assert (D : (value t c mod 2 ^ (j + 1)) / 2 ^ j = (value t c / 2 ^ j) mod 2).
    { rewrite mod_pow2_S by auto. rewrite Z.mul_comm, Z.div_add by lia.
      rewrite Z.div_small by (apply Z.mod_pos_bound; lia). reflexivity. }
    rewrite <- D, below_mod, pow2_S by lia.
    rewrite below_S by auto. rewrite (Z.mul_comm 2), Z.rem_mul_r by lia.
    rewrite (Z.mul_comm (2 ^ j) (_ mod 2)), Z.div_add by lia.
    rewrite Z.div_small by (apply Z.mod_pos_bound; lia). rewrite Z.add_0_l.
    f_equal. rewrite Z.mul_comm, Z.div_add by lia. reflexivity. }
  rewrite E. pose proof (Z.div_mod (carry j t c + column j t c) 2). lia.
Qed.

Lemma carry_0 : forall t c, carry 0 t c = 0.
Proof.
  intros. unfold carry, below, linear. change (2 ^ 0) with 1. rewrite Z.div_1_r, Z.mod_1_r.
  assert (E : sum (map (fun '(k, w) => k * (w mod 1)) t) = 0).
  { induction t as [| [k w] t IH]; simpl; auto. rewrite Z.mod_1_r, IH. lia. }
  lia.
Qed.

(** The last carry: constant where the sum stays in range and no word is wider than the target. *)

Theorem last_carry_is_constant : forall n t c, 0 <= n ->
  Forall (fun '(_, w) => 0 <= w < 2 ^ n) t -> 0 <= value t c < 2 ^ n ->
  carry n t c = - (c / 2 ^ n).
Proof.
  intros n t c N W V. pose proof (pow2_pos n N).
  assert (E : below n t c = value t c + 2 ^ n * - (c / 2 ^ n)).
  { unfold below, value, linear.
    assert (S : sum (map (fun '(k, w) => k * (w mod 2 ^ n)) t) = sum (map (fun '(k, w) => k * w) t)).
    { clear V. induction W as [| [k w] l Hw Hl IH]; simpl; auto. rewrite IH, Z.mod_small by auto. reflexivity. }
    rewrite S. pose proof (Z.div_mod c (2 ^ n)). lia. }
  unfold carry. rewrite E, Z.mul_comm, Z.div_add, Z.div_small by lia. lia.
Qed.

Theorem last_carry_of_wide_words :
  let t := [(1, 8); (-1, 7)] in 0 <= value t 0 < 2 ^ 2 /\ carry 2 t 0 = -1 /\ - (0 / 2 ^ 2) = 0.
Proof. vm_compute. repeat split; discriminate. Qed.

(** ** Carries are thresholds *)

Definition at_least (t x : Z) : Z := if t <=? x then 1 else 0.

Fixpoint thresholds (s first size : Z) (n : nat) : Z :=
  match n with
  | O => 0
  | S m => thresholds s first size m + at_least ((first + Z.of_nat n) * size) s
  end.

Theorem carry_by_thresholds : forall s first size n, 0 < size ->
  first <= s / size <= first + Z.of_nat n -> first + thresholds s first size n = s / size.
Proof.
  intros s first size n P H.
  assert (G : forall m, thresholds s first size m = Z.min (Z.max (s / size - first) 0) (Z.of_nat m)).
  { induction m as [| m IH]; [simpl; lia |].
    cbn [thresholds]. rewrite IH. unfold at_least.
    pose proof (Z.div_mod s size). pose proof (Z.mod_pos_bound s size).
    destruct (Z.leb_spec ((first + Z.of_nat (S m)) * size) s) as [L | L].
    - assert (first + Z.of_nat (S m) <= s / size) by (apply Z.div_le_lower_bound; lia). lia.
    - assert (s / size < first + Z.of_nat (S m)) by (apply Z.div_lt_upper_bound; lia). lia. }
  rewrite G. lia.
Qed.

(** a + b + carry: one threshold on the bits below. *)

Theorem carry_of_sum : forall j a b c, 0 <= j -> 0 <= c <= 1 ->
  (a mod 2 ^ j + b mod 2 ^ j + c) / 2 ^ j = at_least (2 ^ j) (a mod 2 ^ j + b mod 2 ^ j + c).
Proof.
  intros j a b c J C. pose proof (pow2_pos j J). unfold at_least.
  pose proof (Z.mod_pos_bound a (2 ^ j)). pose proof (Z.mod_pos_bound b (2 ^ j)).
  destruct (Z.leb_spec (2 ^ j) (a mod 2 ^ j + b mod 2 ^ j + c)) as [L | L].
  - symmetry. apply Z.div_unique with (a mod 2 ^ j + b mod 2 ^ j + c - 2 ^ j); lia.
  - apply Z.div_small. lia.
Qed.

Theorem addition : forall j a b c, 0 <= j -> 0 <= c <= 1 ->
  let T := fun i => at_least (2 ^ i) (a mod 2 ^ i + b mod 2 ^ i + c) in
  bit j (a + b + c) = bit j a + bit j b + (if Z.eqb j 0 then c else T j) - 2 * T (j + 1).
Proof.
  intros j a b c J C T. unfold T. rewrite <- !carry_of_sum by lia.
  destruct (Z.eqb_spec j 0) as [-> | N].
  - simpl (0 + 1). change (2 ^ 1) with 2. unfold bit. change (2 ^ 0) with 1. rewrite !Z.div_1_r.
    pose proof (Z.div_mod (a mod 2 + b mod 2 + c) 2).
    assert ((a + b + c) mod 2 = (a mod 2 + b mod 2 + c) mod 2).
    { rewrite (Z.add_mod (a + b)), (Z.add_mod a b), (Z.add_mod (a mod 2 + b mod 2)) by lia. reflexivity. }
    lia.
  - assert (E : value [(1, a); (1, b)] c = a + b + c) by (unfold value, linear; cbn [map sum fold_right]; lia).
    rewrite <- E, adder by auto.
    assert (M : forall i, 0 < i -> c mod 2 ^ i = c).
    { intros i I. apply Z.mod_small. assert (2 ^ 1 <= 2 ^ i) by (apply Z.pow_le_mono_r; lia).
      change (2 ^ 1) with 2 in *. lia. }
    assert (B : bit j c = 0).
    { unfold bit. rewrite Z.div_small; auto. assert (2 ^ 1 <= 2 ^ j) by (apply Z.pow_le_mono_r; lia).
      change (2 ^ 1) with 2 in *. lia. }
    assert (F : forall i, 0 < i -> carry i [(1, a); (1, b)] c = (a mod 2 ^ i + b mod 2 ^ i + c) / 2 ^ i).
    { intros i I. unfold carry, below, linear. cbn [map sum fold_right]. rewrite (M i I). f_equal. lia. }
    rewrite !F by lia. unfold column, linear. cbn [map sum fold_right]. rewrite B. lia.
Qed.

(** a - b: the carry is minus a borrow. *)

Theorem subtraction : forall j a b, 0 <= j ->
  let borrow := fun i => if a mod 2 ^ i <? b mod 2 ^ i then 1 else 0 in
  bit j (a - b) = bit j a - bit j b - borrow j + 2 * borrow (j + 1).
Proof.
  intros j a b J borrow.
  assert (E : value [(1, a); (-1, b)] 0 = a - b) by (unfold value, linear; cbn [map sum fold_right]; lia).
  rewrite <- E, adder by auto.
  assert (C : forall i, 0 <= i -> carry i [(1, a); (-1, b)] 0 = - borrow i).
  { intros i I. pose proof (pow2_pos i I). unfold carry, below, linear, borrow. cbn [map sum fold_right].
    rewrite (Z.mod_0_l (2 ^ i)) by lia.
    pose proof (Z.mod_pos_bound a (2 ^ i)). pose proof (Z.mod_pos_bound b (2 ^ i)).
    destruct (Z.ltb_spec (a mod 2 ^ i) (b mod 2 ^ i)).
    - symmetry. apply Z.div_unique with (a mod 2 ^ i - b mod 2 ^ i + 2 ^ i); lia.
    - symmetry. apply Z.div_unique with (a mod 2 ^ i - b mod 2 ^ i); lia. }
  rewrite !C by lia. unfold column, linear. cbn [map sum fold_right].
  assert (B : bit j 0 = 0) by (unfold bit; rewrite Z.div_0_l by (pose proof (pow2_pos j J); lia); reflexivity).
  rewrite B. lia.
Qed.

(** Modulo 2^n: writing the bits below n is taking the sum modulo 2^n. *)

Theorem modulo : forall n t c, word n (fun j => bit j (value t c)) = value t c mod 2 ^ Z.of_nat n.
Proof. intros. apply word_of_low_bits. Qed.

(** ** Comparisons: one threshold, or two *)

Theorem comparison : forall t c k, clipZ (value t c - k + 1) = if k <=? value t c then 1 else 0.
Proof. intros. rewrite clipZ_is_threshold. destruct (Z.leb_spec 1 (value t c - k + 1)), (Z.leb_spec k (value t c)); lia. Qed.

Theorem equality : forall t c k,
  clipZ (value t c - k + 1) - clipZ (value t c - (k + 1) + 1) = if value t c =? k then 1 else 0.
Proof.
  intros. rewrite !comparison.
  destruct (Z.leb_spec k (value t c)), (Z.leb_spec (k + 1) (value t c)), (Z.eqb_spec (value t c) k); lia.
Qed.

(** Linear in the bits: the threshold reads the bits of the words, with weights c · 2^i. *)

Theorem comparison_reads_bits : forall n (t : terms) c, Forall (fun '(_, w) => 0 <= w < 2 ^ Z.of_nat n) t ->
  value t c = sum (map (fun '(k, w) => k * word n (fun j => bit j w)) t) + c.
Proof.
  intros n t c W. unfold value, linear. f_equal. f_equal.
  rewrite Forall_forall in W. apply map_ext_in. intros [k w] I. specialize (W _ I). simpl in W.
  now rewrite word_of_bits.
Qed.

(** ** Two's complement *)

Definition signed (n x : Z) : Z := if x <? 2 ^ (n - 1) then x else x - 2 ^ n.

Definition in_range (n x : Z) : Prop := 0 <= x < 2 ^ n.

Lemma half : forall n, 0 < n -> 2 ^ n = 2 * 2 ^ (n - 1).
Proof. intros. replace n with (n - 1 + 1) at 1 by lia. apply pow2_S. lia. Qed.

Theorem signed_mod : forall n x, 0 < n -> in_range n x -> signed n x mod 2 ^ n = x.
Proof.
  intros n x N [L H]. unfold signed. destruct (Z.ltb_spec x (2 ^ (n - 1))).
  - now apply Z.mod_small.
  - symmetry. apply Z.mod_unique with (-1); lia.
Qed.

Theorem signed_range : forall n x, 0 < n -> in_range n x -> - 2 ^ (n - 1) <= signed n x < 2 ^ (n - 1).
Proof.
  intros n x N [L H]. pose proof (half n N). pose proof (pow2_pos (n - 1)). unfold signed.
  destruct (Z.ltb_spec x (2 ^ (n - 1))); lia.
Qed.

(** The adder modulo 2^n adds signed numbers too, up to overflow. *)

Theorem signed_addition : forall n x y, 0 < n -> in_range n x -> in_range n y ->
  - 2 ^ (n - 1) <= signed n x + signed n y < 2 ^ (n - 1) ->
  signed n ((x + y) mod 2 ^ n) = signed n x + signed n y.
Proof.
  intros n x y N X Y B. pose proof (half n N). pose proof (pow2_pos (n - 1)).
  assert (E : (x + y) mod 2 ^ n = (signed n x + signed n y) mod 2 ^ n).
  { rewrite (Z.add_mod (signed n x)) by lia. rewrite !signed_mod by auto. reflexivity. }
  rewrite E. set (s := signed n x + signed n y) in *. unfold signed.
  destruct (Z.leb_spec 0 s).
  - rewrite Z.mod_small by lia. destruct (Z.ltb_spec s (2 ^ (n - 1))); lia.
  - assert (M : s mod 2 ^ n = s + 2 ^ n) by (symmetry; apply Z.mod_unique with (-1); lia).
    rewrite M. destruct (Z.ltb_spec (s + 2 ^ n) (2 ^ (n - 1))); lia.
Qed.

Theorem negation : forall n x, 0 <= n -> (- x) mod 2 ^ n = ((2 ^ n - 1 - x) + 1) mod 2 ^ n.
Proof.
  intros n x N. pose proof (pow2_pos n N). replace (2 ^ n - 1 - x + 1) with (- x + 1 * 2 ^ n) by lia.
  now rewrite Z.mod_add by lia.
Qed.

Theorem subtraction_by_complement : forall n x y, 0 <= n -> (x - y) mod 2 ^ n = (x + (2 ^ n - 1 - y) + 1) mod 2 ^ n.
Proof.
  intros n x y N. pose proof (pow2_pos n N).
  replace (x + (2 ^ n - 1 - y) + 1) with (x - y + 1 * 2 ^ n) by lia. now rewrite Z.mod_add by lia.
Qed.

(** Signed comparison is unsigned comparison with the sign bits flipped. *)

Theorem signed_comparison : forall n x y, 0 < n -> in_range n x -> in_range n y ->
  (signed n x < signed n y <-> (x + 2 ^ (n - 1)) mod 2 ^ n < (y + 2 ^ (n - 1)) mod 2 ^ n).
Proof.
  intros n x y N X Y. pose proof (half n N). pose proof (pow2_pos (n - 1)).
  assert (F : forall z, in_range n z -> (z + 2 ^ (n - 1)) mod 2 ^ n = signed n z + 2 ^ (n - 1)).
  { intros z [L H']. unfold signed. destruct (Z.ltb_spec z (2 ^ (n - 1))).
    - apply Z.mod_small. lia.
    - symmetry. apply Z.mod_unique with 1; lia. }
  rewrite !F by auto. lia.
Qed.

(** ** Limbs

    A long word is a list of limbs below B, lowest first.  A limb's carry is one threshold on the limb's sum. *)

Section Limbs.

Variable B : Z.
Hypothesis B_pos : 1 < B.

Definition limb (x : Z) : Prop := 0 <= x < B.

Fixpoint long (l : list Z) : Z :=
  match l with
  | [] => 0
  | x :: l => x + B * long l
  end.

Fixpoint add (c : Z) (l : list (Z * Z)) : list Z * Z :=
  match l with
  | [] => ([], c)
  | (a, b) :: l =>
      let out := at_least B (a + b + c) in
      let '(rest, last) := add out l in (a + b + c - B * out :: rest, last)
  end.

Fixpoint subtract (c : Z) (l : list (Z * Z)) : list Z * Z :=
  match l with
  | [] => ([], c)
  | (a, b) :: l =>
      let out := if a <? b + c then 1 else 0 in
      let '(rest, last) := subtract out l in (a - b - c + B * out :: rest, last)
  end.

Definition limbs (l : list (Z * Z)) : Prop := Forall (fun '(a, b) => limb a /\ limb b) l.

Theorem limb_addition : forall l c, limbs l -> 0 <= c <= 1 ->
  Forall limb (fst (add c l)) /\ 0 <= snd (add c l) <= 1 /\
  long (fst (add c l)) + B ^ Z.of_nat (length l) * snd (add c l) = long (map fst l) + long (map snd l) + c.
Proof.
  intros l c H. revert c. induction H as [| [a b] l [Ha Hb] Hl IH]; intros c C; cbn [add].
  - cbn [fst snd long map length]. change (Z.of_nat 0) with 0. rewrite Z.pow_0_r. repeat split; auto; lia.
  - set (out := at_least B (a + b + c)).
    assert (O : 0 <= out <= 1) by (unfold out, at_least; destruct (B <=? a + b + c); lia).
    specialize (IH out O). destruct (add out l) as [rest last] eqn:E. simpl fst in *. simpl snd in *.
    destruct IH as (I1 & I2 & I3). repeat split; auto; try lia.
    + constructor; auto. unfold limb in *. unfold out, at_least. destruct (Z.leb_spec B (a + b + c)); lia.
    + cbn [long map length]. rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. cbn [fst snd]. nia.
Qed.

Theorem limb_subtraction : forall l c, limbs l -> 0 <= c <= 1 ->
  Forall limb (fst (subtract c l)) /\ 0 <= snd (subtract c l) <= 1 /\
  long (fst (subtract c l)) - B ^ Z.of_nat (length l) * snd (subtract c l) = long (map fst l) - long (map snd l) - c.
Proof.
  intros l c H. revert c. induction H as [| [a b] l [Ha Hb] Hl IH]; intros c C; cbn [subtract].
  - cbn [fst snd long map length]. change (Z.of_nat 0) with 0. rewrite Z.pow_0_r. repeat split; auto; lia.
  - set (out := if a <? b + c then 1 else 0).
    assert (O : 0 <= out <= 1) by (unfold out; destruct (a <? b + c); lia).
    specialize (IH out O). destruct (subtract out l) as [rest last] eqn:E. simpl fst in *. simpl snd in *.
    destruct IH as (I1 & I2 & I3). repeat split; auto; try lia.
    + constructor; auto. unfold limb in *. unfold out. destruct (Z.ltb_spec a (b + c)); lia.
    + cbn [long map length]. rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. cbn [fst snd]. nia.
Qed.

Lemma long_bounds : forall l, Forall limb l -> 0 <= long l < B ^ Z.of_nat (length l).
Proof.
  induction 1 as [| x l Hx Hl IH]; cbn [long length].
  - simpl. lia.
  - rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. unfold limb in Hx. nia.
Qed.

Lemma subtract_length : forall l c, length (fst (subtract c l)) = length l.
Proof.
  induction l as [| [a b] l IH]; intros c; cbn [subtract]; auto.
  specialize (IH (if a <? b + c then 1 else 0)). destruct (subtract _ l). simpl in *. auto.
Qed.

(** The last borrow is the comparison. *)

Theorem limb_comparison : forall l, limbs l ->
  snd (subtract 0 l) = if long (map fst l) <? long (map snd l) then 1 else 0.
Proof.
  intros l H. destruct (limb_subtraction l 0 H) as (R & O & E); [lia |].
  pose proof (long_bounds _ R) as D. rewrite subtract_length in D.
  assert (0 < B ^ Z.of_nat (length l)) by (apply Z.pow_pos_nonneg; lia).
  destruct (Z.ltb_spec (long (map fst l)) (long (map snd l))); nia.
Qed.

(** Look-ahead: with g = [a + b ≥ B] (a limb makes a carry) and q = [a + b ≥ B - 1] (it makes one or passes one
    on), the carries between limbs are those of adding the binary numbers g and q: the carry into limb i is one
    threshold on the g and q of the limbs below, as in [carry_of_sum]. *)

Definition generates (ab : Z * Z) : Z := at_least B (fst ab + snd ab).
Definition passes (ab : Z * Z) : Z := at_least (B - 1) (fst ab + snd ab).

Fixpoint binary (l : list Z) : Z :=
  match l with
  | [] => 0
  | x :: l => x + 2 * binary l
  end.

Theorem look_ahead : forall l c, limbs l -> 0 <= c <= 1 ->
  snd (add c l) = at_least (2 ^ Z.of_nat (length l)) (binary (map generates l) + binary (map passes l) + c).
Proof.
  intros l c H. revert c. induction H as [| [a b] l [Ha Hb] Hl IH]; intros c C; cbn [add].
  - simpl. unfold at_least. destruct (Z.leb_spec 1 c); lia.
  - set (out := at_least B (a + b + c)).
    assert (O : 0 <= out <= 1) by (unfold out, at_least; destruct (B <=? a + b + c); lia).
    specialize (IH out O). destruct (add out l) as [rest last]. simpl snd in *. rewrite IH.
    cbn [map binary length]. rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia.
    assert (G : generates (a, b) + passes (a, b) + c = 2 * out + (generates (a, b) + passes (a, b) + c - 2 * out)
      /\ 0 <= generates (a, b) + passes (a, b) + c - 2 * out <= 1).
    { unfold generates, passes, out, at_least. cbn [fst snd]. unfold limb in *.
      destruct (Z.leb_spec B (a + b + c)), (Z.leb_spec B (a + b)), (Z.leb_spec (B - 1) (a + b)); lia. }
    set (P := 2 ^ Z.of_nat (length l)) in *. unfold at_least.
    set (x := binary (map generates l)) in *. set (y := binary (map passes l)) in *.
    destruct (Z.leb_spec P (x + y + out)),
      (Z.leb_spec (2 * P) (generates (a, b) + 2 * x + (passes (a, b) + 2 * y) + c)); lia.
Qed.

End Limbs.
