;; A loop of which it is known what it takes: see the test of fuel.
(module
  (memory (export "memory") 1)
  (func (export "_start") (local $left i32)
    (local.set $left (i32.const 1000))
    (loop $again
      (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))
