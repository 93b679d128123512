(** The proved functions as OCaml: [recheck_variable], [recheck_head] and [recheck_clearing], with Coq's numbers as Zarith's. *)

From Coq Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZBigInt.
From Kleene Require Import Tables.

Extraction Language OCaml.
Extraction "build/walk.ml" recheck_variable recheck_head recheck_clearing.
