//! The outside documents that are not CRDs: quantities, annotations, CNI capability arguments
