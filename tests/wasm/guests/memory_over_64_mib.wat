;; One page more than --wasm-max-memory 64 gives.
(module (memory (export "memory") 1025) (func (export "_start")))
