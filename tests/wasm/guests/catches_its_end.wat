;; Would go on after its fuel, its stack and its exit are used up, if any of them could be caught.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (call $exit (i32.const 3))
    (call $exit (i32.const 4))
    (loop $again (br $again))))
