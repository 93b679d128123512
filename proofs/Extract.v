(** The proved functions as OCaml: [recheck_variable] and [recheck_head], with Coq's numbers as Zarith's. *)

From Coq Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZBigInt.
From Kleene Require Import Tables.

Extraction Language OCaml.
Extraction "build/walk.ml" recheck_variable recheck_head fits.
