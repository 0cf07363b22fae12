;; 1024 pages from the beginning: just what --wasm-max-memory 64 gives.
(module (memory (export "memory") 1024) (func (export "_start") (i32.store8 (i32.const 67108863) (i32.const 1))))
