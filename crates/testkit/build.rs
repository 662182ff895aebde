//! Compiles the foreign programs.

#[path = "../bpf/clang.rs"]
mod clang;

fn main() {
    println!("cargo:rerun-if-changed=../bpf/clang.rs");
    clang::compile("bpf/foreign.bpf.c", "foreign.o");
}
