(* Reads what export.py wrote of a saved network and re-checks it with the functions that Coq proved and extracted.

     recheck FILE        prints a line for each block's clearing, each variable and each head, and for what is left out

   Exit code 0: everything holds; 1: something fails; 2: bad file; 3: nothing fails, but something is left out.

   Only the reading of the file is written by hand. *)

open Walk

exception Malformed of string

let words : string list ref = ref []

let next () =
  match !words with
  | [] -> raise (Malformed "the file ends early")
  | word :: rest -> words := rest; word

let number () =
  let word = next () in
  try Big_int_Z.big_int_of_string word with _ -> raise (Malformed ("not a whole number: " ^ word))

let count () =
  let word = next () in
  match int_of_string_opt word with
  | Some n when n >= 0 -> n
  | _ -> raise (Malformed ("not a count: " ^ word))

let expect wanted = if next () <> wanted then raise (Malformed ("expected " ^ wanted))

let many read = let n = count () in List.init n (fun _ -> read ())

let flag () = match next () with "0" -> false | "1" -> true | word -> raise (Malformed ("not 0 or 1: " ^ word))

let row () = many (fun () -> let d = count () in let w = number () in (d, w))

let unit_ () = let reads = row () in let bias = number () in let writes = row () in { reads; bias; writes }

let atom () =
  let head = match next () with
    | "variable" -> None | "head" -> Some false | "averaging" -> Some true
    | word -> raise (Malformed ("neither variable nor head: " ^ word)) in
  { values_on = many (fun () -> many count); head }

let form () = let constant = number () in (constant, many (fun () -> many number))

let update only_reads () =
  let guard = many (fun () -> let f = form () in (f, many number)) in
  let form = form () in
  let table = many (fun () -> let a = number () in (a, number ())) in
  { guard; form; table; only_reads }

let side () =
  let places = many (fun () -> let r = row () in (r, number ())) in
  let of_atoms = many (fun () -> many (fun () -> many count)) in
  let limited = many (fun () -> let k = count () in (k, count ())) in
  { places; of_atoms; limited }

let wrong = ref 0

let say what name holds =
  Printf.printf "%s %s %s\n%!" what name (if holds then "holds" else "fails");
  if not holds then incr wrong

let variable block () =
  let name = next () in
  let own = count () in
  let order = many count in
  let updates = many (update false) in
  let reads = many (update true) in
  (* where a head is undefined, [step] may read it and raise: then the read guards are looked at too *)
  say "variable" name
    (recheck_variable block order own updates || recheck_variable block order own (updates @ reads))

let head () =
  let name = next () in
  let best = number () in
  let gap = number () in
  let null = number () in
  let asking = side () in
  let offered = side () in
  let matched = if flag () then
      let i = count () in let j = count () in Some ((i, j), many (fun () -> many count))
    else None in
  let distances = many (fun () -> let d = number () in (d, flag ())) in
  say "head" name (recheck_head best gap { asking; offered; matched; distances; null })

let block () =
  expect "block";
  let first_half = many unit_ in
  let second_half = many unit_ in
  let atoms = many atom in
  let idle = many count in
  let b = { first_half; second_half; atoms; idle } in
  let name = next () in
  let dims = many count in
  let scratch = many count in
  say "clearing" name (recheck_clearing b dims scratch);
  ignore (many (variable b));
  ignore (many head)

let () =
  let path = if Array.length Sys.argv = 2 then Sys.argv.(1) else (prerr_endline "recheck FILE"; exit 2) in
  try
    let channel = open_in path in
    let text = really_input_string channel (in_channel_length channel) in
    close_in channel;
    words := List.filter (fun w -> w <> "") (String.split_on_char ' ' (String.map (fun c -> if c = '\n' then ' ' else c) text));
    expect "kleene-recheck-2";
    ignore (many block);
    let left_out = many (fun () -> let what = next () in what ^ " " ^ next ()) in
    expect "end";
    if !words <> [] then raise (Malformed "the file goes on after its end");
    List.iter (Printf.printf "%s left out\n") left_out;
    exit (if !wrong > 0 then 1 else if left_out = [] then 0 else 3)
  with Malformed why | Sys_error why -> Printf.eprintf "recheck: %s: %s\n" path why; exit 2
