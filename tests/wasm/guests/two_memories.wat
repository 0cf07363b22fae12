;; A limit for each memory would be none.
(module (memory (export "memory") 1) (memory 512) (func (export "_start")))
