//! The main program's table of imported functions (ELF's global offset table), and how an entry of it is replaced.
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::size_of;
use core::ptr::{self, null};
use libc::{Elf64_Phdr, Elf64_Sym, dl_phdr_info, size_t};

/// Tags of the dynamic section (ELF specification, figure 2-10).
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
/// Kinds of relocations that put the address of a function into the table: for calls through it, and for its address as a value.
#[cfg(target_arch = "x86_64")]
const KINDS: [u32; 2] = [7, 6];
#[cfg(target_arch = "aarch64")]
const KINDS: [u32; 2] = [1_026, 1_025];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the relocations and variadic calls of this architecture are not known here");

/// `Elf64_Dyn`.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    _addend: i64,
}

/// A function's name and what shall be called instead.
pub(super) type Replacement = (&'static CStr, *const c_void);

/// Puts each replacement into the main program's table wherever the function of that name stands. Returns the names for which memory
/// could not be made writable. A name that the program does not import is no failure: it does not call it.
///
/// # Safety
/// Each replacement can be called as the function of its name.
pub(super) unsafe fn redirect(table: &[Replacement]) -> Vec<&'static CStr> {
    let mut walk = Walk { table, failed: Vec::new() };
    // SAFETY: the callback gets what it expects: `walk` is alone in use until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(first_object), (&raw mut walk).cast()) };
    walk.failed
}

struct Walk<'a> {
    table: &'a [Replacement],
    failed: Vec<&'static CStr>,
}

/// The first object is the main program; a result other than zero ends the walk after it.
unsafe extern "C" fn first_object(info: *mut dl_phdr_info, _: size_t, walk: *mut c_void) -> c_int {
    // SAFETY: the loader passes a description that lives during the call, and `walk` is what `redirect` passed.
    let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk<'_>>()) };
    // SAFETY: the loader's headers are those of an object that is loaded.
    let object = unsafe { Object::of(info) };
    if let Some(object) = object {
        // SAFETY: the tables are the object's own, and `redirect`'s caller answers for the replacements.
        unsafe { object.patch(walk) };
    }
    1
}

/// The tables of a loaded object.
struct Object {
    base: u64,
    symbols: *const Elf64_Sym,
    strings: *const c_char,
    /// DT_JMPREL and DT_RELA with their sizes in bytes.
    relocations: [(*const Relocation, u64); 2],
    /// Memory that the loader has made read-only after relocation (PT_GNU_RELRO).
    relro: (u64, u64),
}

impl Object {
    /// # Safety
    /// `info` describes a loaded object.
    unsafe fn of(info: &dl_phdr_info) -> Option<Self> {
        let base = info.dlpi_addr;
        // SAFETY: the loader keeps so many headers at this place.
        let headers: &[Elf64_Phdr] =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let segment = |ty: u32| headers.iter().find(|h| h.p_type == ty);
        let dynamic = segment(libc::PT_DYNAMIC)?;
        let relro = segment(libc::PT_GNU_RELRO)
            .map_or((0, 0), |h| (base.wrapping_add(h.p_vaddr), base.wrapping_add(h.p_vaddr + h.p_memsz)));
        let mut object =
            Self { base, symbols: null(), strings: null(), relocations: [(null(), 0); 2], relro };
        let mut entry = pointer::<Dynamic>(base.wrapping_add(dynamic.p_vaddr));
        loop {
            // SAFETY: the section is an array that ends with DT_NULL, where this loop ends.
            let Dynamic { tag, value } = unsafe { entry.read() };
            match tag {
                DT_NULL => break,
                DT_SYMTAB => object.symbols = pointer(object.address(value)),
                DT_STRTAB => object.strings = pointer(object.address(value)),
                DT_JMPREL => object.relocations[0].0 = pointer(object.address(value)),
                DT_PLTRELSZ => object.relocations[0].1 = value,
                DT_RELA => object.relocations[1].0 = pointer(object.address(value)),
                DT_RELASZ => object.relocations[1].1 = value,
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        (!object.symbols.is_null() && !object.strings.is_null()).then_some(object)
    }

    /// glibc relocates the addresses of the dynamic section in place, other loaders leave them as in the file.
    const fn address(&self, value: u64) -> u64 {
        if value < self.base { value.wrapping_add(self.base) } else { value }
    }

    /// # Safety
    /// The tables are those of a loaded object, and the replacements can be called in place of what they replace.
    unsafe fn patch(&self, walk: &mut Walk<'_>) {
        for (first, bytes) in self.relocations {
            let count = if first.is_null() { 0 } else { bytes as usize / size_of::<Relocation>() };
            for i in 0..count {
                // SAFETY: the table has so many entries.
                let relocation = unsafe { first.wrapping_add(i).read() };
                let kind = (relocation.info & 0xffff_ffff) as u32;
                if !KINDS.contains(&kind) {
                    continue;
                }
                // SAFETY: the symbol and its name belong to the same object.
                let name = unsafe { self.name(relocation.info >> 32) };
                let Some((name, instead)) = walk.table.iter().find(|(n, _)| *n == name) else { continue };
                let slot = pointer::<*const c_void>(self.base.wrapping_add(relocation.offset)).cast_mut();
                // SAFETY: the relocation says that this entry holds the function's address.
                if !unsafe { self.store(slot, *instead) } {
                    walk.failed.push(name);
                }
            }
        }
    }

    /// # Safety
    /// `index` is of a symbol of this object.
    unsafe fn name(&self, index: u64) -> &CStr {
        // SAFETY: relocations name symbols of the table beside them, and symbols their strings.
        unsafe {
            let symbol = self.symbols.wrapping_add(index as usize).read();
            CStr::from_ptr(self.strings.wrapping_add(symbol.st_name as usize))
        }
    }

    /// Makes the entry's pages writable, stores, and makes them read-only again where they were. False when the kernel refuses.
    ///
    /// # Safety
    /// `slot` is an entry of this object's table, and nothing else than the address of a function is expected in it.
    unsafe fn store(&self, slot: *mut *const c_void, value: *const c_void) -> bool {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096);
        let start = slot.map_addr(|at| at & !(page - 1)).cast::<c_void>();
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the page holds the entry and stays what it is, with one more right. An aligned entry does not cross its end.
        if unsafe { libc::mprotect(start, page, writable) } != 0 {
            return false;
        }
        // SAFETY: the entry is mapped and writable; a thread that calls through it finds the old or the new function.
        unsafe { ptr::write_volatile(slot, value) };
        let (from, to) = self.relro;
        let at = slot.addr() as u64;
        // The loader protects whole pages only, those that end within the segment.
        let protected = from <= at && at < to && (start.addr() + page) as u64 <= to;
        if protected {
            // SAFETY: gives the page the right that it had.
            unsafe { libc::mprotect(start, page, libc::PROT_READ) };
        }
        true
    }
}

/// An address that the loader or a table of a loaded object names.
fn pointer<T>(address: u64) -> *const T {
    ptr::with_exposed_provenance(address as usize)
}
