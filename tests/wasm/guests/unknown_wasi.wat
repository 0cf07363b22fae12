(module (import "wasi_snapshot_preview1" "proc_fork" (func (result i32))) (memory (export "memory") 1) (func (export "_start")))
