"""A GPU made of software: the machine code that Triton's ptxas makes, decoded and executed with no GPU."""
