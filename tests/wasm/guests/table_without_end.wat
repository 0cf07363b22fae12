;; Grows a table until it can't, and a little further.
(module
  (memory (export "memory") 1)
  (table $t 1 funcref)
  (func (export "_start")
    (loop $more
      (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 65536)) (i32.const -1))))
    (drop (table.grow $t (ref.null func) (i32.const 0x7fffffff)))))
