;; A library: nothing to start.
(module (memory (export "memory") 1) (func (export "other")))
