"""Jobs and results in one file each, for machines without network or database.

`exporting` and `importing` stand where the store is; `evaluating` stands where the device is, and
imports nothing beyond NumPy, llvmlite and the device's own packages. Import from the modules.
"""
