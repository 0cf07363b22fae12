;; What runs before _start.
(module (memory (export "memory") 1) (func $early unreachable) (start $early) (func (export "_start")))
