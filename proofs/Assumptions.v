(** What the main theorems rest on.  The output is compared with assumptions.txt: Coq's axioms of the real numbers
    and what they bring with them, nothing of ours. *)

From Coq Require Import ZArith Reals List.
From Flocq Require Import Core.
From Kleene Require Import Sums Attention Thresholds Adders Averages Composition Walk Tables.
Open Scope Z_scope. Open Scope R_scope.

Check Sums.sums_are_exact.
Print Assumptions Sums.sums_are_exact.
Check Sums.every_order.
Print Assumptions Sums.every_order.
Check Sums.binary_sums_are_exact.
Print Assumptions Sums.binary_sums_are_exact.
Check Attention.hard_attention.
Print Assumptions Attention.hard_attention.
Check Attention.null_key_matched.
Print Assumptions Attention.null_key_matched.
Check Attention.null_key_unmatched.
Print Assumptions Attention.null_key_unmatched.
Check Attention.nearest_exponential.
Print Assumptions Attention.nearest_exponential.
Check Attention.gap_underflows_1024.
Print Assumptions Attention.gap_underflows_1024.
Check Attention.rough_unit_is_silent.
Print Assumptions Attention.rough_unit_is_silent.
Check Attention.thirds_exceed_one_float32.
Print Assumptions Attention.thirds_exceed_one_float32.
Check Thresholds.computed_unit.
Print Assumptions Thresholds.computed_unit.
Check Thresholds.chain_of_units.
Print Assumptions Thresholds.chain_of_units.
Check Thresholds.separable_form_is_linear.
Print Assumptions Thresholds.separable_form_is_linear.
Check Thresholds.write_then_clear.
Print Assumptions Thresholds.write_then_clear.
Check Adders.adder.
Print Assumptions Adders.adder.
Check Adders.limb_addition.
Print Assumptions Adders.limb_addition.
Check Adders.limb_comparison.
Print Assumptions Adders.limb_comparison.
Check Adders.look_ahead.
Print Assumptions Adders.look_ahead.
Check Adders.signed_comparison.
Print Assumptions Adders.signed_comparison.
Check Averages.separated.
Print Assumptions Averages.separated.
Check Averages.next_neighbours.
Print Assumptions Averages.next_neighbours.
Check Averages.continued_neighbours.
Print Assumptions Averages.continued_neighbours.
Check Averages.bucket.
Print Assumptions Averages.bucket.
Check Composition.network_runs_program.
Print Assumptions Composition.network_runs_program.
Check Composition.network_decodes_program.
Print Assumptions Composition.network_decodes_program.
Check Composition.selecting_head_agrees.
Print Assumptions Composition.selecting_head_agrees.
Check Composition.empty_head_agrees.
Print Assumptions Composition.empty_head_agrees.
Check Composition.averaging_head_agrees.
Print Assumptions Composition.averaging_head_agrees.
Check Walk.walk_sound.
Print Assumptions Walk.walk_sound.
Check Walk.check_variable_sound.
Print Assumptions Walk.check_variable_sound.
Check Tables.recheck_variable_sound.
Print Assumptions Tables.recheck_variable_sound.
Check Tables.sums_are_dot_products.
Print Assumptions Tables.sums_are_dot_products.
Check Tables.average_inside.
Print Assumptions Tables.average_inside.
Check Tables.recheck_head_sound.
Print Assumptions Tables.recheck_head_sound.
Check Tables.every_combination.
Print Assumptions Tables.every_combination.
Check Attention.gap_by_logarithm.
Print Assumptions Attention.gap_by_logarithm.
Check Attention.growth_is_linear.
Print Assumptions Attention.growth_is_linear.
Check Averages.stern_brocot_neighbours.
Print Assumptions Averages.stern_brocot_neighbours.
Check Tables.recheck_clearing_sound.
Print Assumptions Tables.recheck_clearing_sound.
Check Tables.first_half_writes_scratch.
Print Assumptions Tables.first_half_writes_scratch.
Check Attention.trifle.
Print Assumptions Attention.trifle.
Check Attention.gaps_of_the_formats.
Print Assumptions Attention.gaps_of_the_formats.
