;; From the start section.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func $early (call $exit (i32.const 9)))
  (start $early)
  (func (export "_start") unreachable))
