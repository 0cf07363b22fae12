;; A valid module, whose data doesn't fit its memory.
(module (memory (export "memory") 1) (data (i32.const 70000) "x") (func (export "_start")))
