;; Without memory, so that it is the engine's stack that ends.
(module
  (memory (export "memory") 1)
  (func $deeper (param i64 i64 i64) (result i64)
    (i64.add (call $deeper (local.get 1) (local.get 2) (i64.add (local.get 0) (i64.const 1))) (local.get 0)))
  (func (export "_start") (drop (call $deeper (i64.const 1) (i64.const 2) (i64.const 3)))))
