(module (memory (export "_start") 1))
