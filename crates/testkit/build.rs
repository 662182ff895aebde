//! Compiles the foreign programs.

fn main() {
    netqos_bpf_build::compile("bpf/foreign.bpf.c", "foreign.o");
}
