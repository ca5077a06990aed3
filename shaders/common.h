// Constants that all kernels and the host share.
HK_CONSTANT(kMaxRank, 6);           // dimensions of a tensor
HK_CONSTANT(kRowsPerGroup, 4);      // rows per workgroup of a row kernel, where loads are not uniform
HK_CONSTANT(kElementsPerGroup, 512); // elements per workgroup of an elementwise kernel

// Storage of a tensor's elements (enum Storage). Kernels without 16-bit storage always read and write float32.
HK_CONSTANT(kF32, 0);
HK_CONSTANT(kF16, 1);
HK_CONSTANT(kBF16, 2);
HK_CONSTANT(kI32, 3);
