;; All that 32 bits can address.
(module (memory (export "memory") 65536) (func (export "_start")))
