;; The name that WASI had before preview 1.
(module (import "wasi_unstable" "proc_exit" (func (param i32))) (memory (export "memory") 1) (func (export "_start")))
