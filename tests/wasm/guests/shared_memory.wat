(module (memory (export "memory") 1 16 shared) (func (export "_start")))
