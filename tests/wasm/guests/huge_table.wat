(module (memory (export "memory") 1) (table 100000000 funcref) (func (export "_start")))
