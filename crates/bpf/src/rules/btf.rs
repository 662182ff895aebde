//! The kernel's description of its own types, as far as calling a function of it needs.
//!
//! A module's description continues the kernel's: its types are numbered after the kernel's, and
//! its strings begin where the kernel's end (Documentation/bpf/btf.rst, "split BTF").

use std::collections::HashMap;

/// Kinds of types (`include/uapi/linux/btf.h`).
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

const MAGIC: u16 = 0xeb9f;
/// `struct btf_type`, `struct btf_member`.
const TYPE: usize = 12;
const MEMBER: usize = 12;

/// Functions and structures by name. Of several of one name, the first counts.
#[derive(Debug, Default)]
pub(super) struct Btf {
    functions: HashMap<Vec<u8>, u32>,
    structs: HashMap<Vec<u8>, Struct>,
    /// How many types and bytes of strings there are, those of the base among them.
    types: u32,
    strings: Vec<u8>,
}

/// A structure: its size, and where its members are, in bytes.
#[derive(Debug, Default)]
struct Struct {
    size: u32,
    members: HashMap<Vec<u8>, u32>,
}

impl Btf {
    /// Reads a description: the kernel's own, or a module's that continues it. Only these
    /// functions and structures are remembered. `None` where it is not what it should be.
    pub(super) fn parse(bytes: &[u8], base: Option<&Self>, wanted: &[&str]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        // { magic, version, flags, hdr_len, type_off, type_len, str_off, str_len }
        let header = word(4)? as usize;
        let part = |offset: usize, length: usize| {
            let from = header.checked_add(word(offset)? as usize)?;
            bytes.get(from..from.checked_add(word(length)? as usize)?)
        };
        let types = part(8, 12)?;
        let mut found = Self {
            types: base.map_or(1, |base| base.types),
            strings: base.map_or_else(Vec::new, |base| base.strings.clone()),
            ..Self::default()
        };
        found.strings.extend(part(16, 20)?);
        found.read_types(types, wanted)?;
        Some(found)
    }

    fn read_types(&mut self, types: &[u8], wanted: &[&str]) -> Option<()> {
        let word = |at: usize| Some(u32::from_ne_bytes(types.get(at..at + 4)?.try_into().ok()?));
        let mut at = 0;
        while at < types.len() {
            let (name, info, size) = (word(at)?, word(at + 4)?, word(at + 8)?);
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            // The high bit says that members' offsets have the size of a bit field beside them.
            let offset_bits = if info >> 31 == 1 {
                0x00ff_ffff
            } else {
                u32::MAX
            };
            let after = at + TYPE;
            let length = match kind {
                INT | VAR | DECL_TAG => 4,
                ARRAY => 12,
                STRUCT | UNION | DATASEC | ENUM64 => count * MEMBER,
                ENUM | FUNC_PROTO => count * 8,
                _ => 0,
            };
            let own = self.string(name)?;
            if matches!(kind, FUNC | STRUCT) && wanted.iter().any(|name| name.as_bytes() == own) {
                let own = own.to_vec();
                if kind == FUNC {
                    self.functions.entry(own).or_insert(self.types);
                } else {
                    let mut members = HashMap::new();
                    for member in (after..after + length).step_by(MEMBER) {
                        let offset = (word(member + 8)? & offset_bits) / 8;
                        members.insert(self.string(word(member)?)?.to_vec(), offset);
                    }
                    let entry = self.structs.entry(own);
                    entry.or_insert(Struct { size, members });
                }
            }
            self.types += 1;
            at = after + length;
        }
        Some(())
    }

    fn string(&self, at: u32) -> Option<&[u8]> {
        let from = self.strings.get(at as usize..)?;
        Some(&from[..from.iter().position(|byte| *byte == 0)?])
    }

    /// The number of a function.
    pub(super) fn function(&self, name: &str) -> Option<u32> {
        self.functions.get(name.as_bytes()).copied()
    }

    /// The size of a structure, in bytes.
    pub(super) fn size(&self, of: &str) -> Option<u32> {
        Some(self.structs.get(of.as_bytes())?.size)
    }

    /// Where a member of a structure is, in bytes.
    pub(super) fn offset(&self, of: &str, member: &str) -> Option<u32> {
        let members = &self.structs.get(of.as_bytes())?.members;
        members.get(member.as_bytes()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of these types, in words, with these strings.
    fn description(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let length = types.len() as u32 * 4;
        for word in [24, 0, length, length, strings.len() as u32] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_modules_description_continues_the_kernels() {
        let kernel = [
            // int, with its four bytes more
            [1, INT << 24, 4, 32].as_slice(),
            // struct pair { int a, b; }
            &[5, STRUCT << 24 | 2, 8, 10, 1, 0, 12, 1, 32],
        ]
        .concat();
        let kernel = description(&kernel, b"\0int\0pair\0a\0b\0");
        let wanted = ["pair", "call", "own"];
        let kernel = Btf::parse(&kernel, None, &wanted).unwrap();
        assert_eq!(kernel.offset("pair", "b"), Some(4));
        assert_eq!(kernel.size("pair"), Some(8));
        assert_eq!(kernel.function("call"), None);

        // A function without parameters, and a structure whose member is a bit field, by names
        // that come after the kernel's 14 bytes; "b" is the kernel's.
        let module = [
            [0, FUNC_PROTO << 24, 1].as_slice(),
            &[14, FUNC << 24, 3],
            &[19, 1 << 31 | STRUCT << 24 | 1, 12, 12, 1, 3 << 24 | 64],
        ]
        .concat();
        let module = Btf::parse(
            &description(&module, b"call\0own\0"),
            Some(&kernel),
            &wanted,
        );
        let module = module.unwrap();
        assert_eq!(module.function("call"), Some(4));
        assert_eq!(module.offset("own", "b"), Some(8));
    }

    #[test]
    fn what_is_cut_off_anywhere_is_refused_or_says_less() {
        let whole = description(&[1, STRUCT << 24 | 1, 4, 1, 0, 0], b"\0pair\0");
        assert!(Btf::parse(&whole, None, &["pair"]).is_some());
        for end in 0..whole.len() {
            assert!(
                Btf::parse(&whole[..end], None, &["pair"]).is_none(),
                "{end}"
            );
        }
    }
}
