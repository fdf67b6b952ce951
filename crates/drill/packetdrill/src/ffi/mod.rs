//! packetdrill's interface for shared objects: the table of functions and what fills it.
mod calls;
mod epoll;
mod files;
mod got;
mod hooks;
mod memory;
mod messages;
mod netdev;
mod sockets;
mod system;
#[cfg(test)]
mod tests;

use crate::failure::{die, guard, say};
use crate::shared::SHARED;
use core::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use core::mem::size_of;
use libc::{
    epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval,
};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the control messages of lowwater-posix have 64-bit longs");

/// `userdata`, which every function gets first and none needs: there is one machine, in `SHARED`.
type User = *mut c_void;

/// `struct packetdrill_interface`, in its order. All members are called without a look whether they are NULL. `fcntl` and `ioctl` are
/// variadic in C; on x86-64 and aarch64 Linux their third argument arrives like that of a function of three.
#[repr(C)]
pub struct Interface {
    userdata: User,
    free: extern "C" fn(User),
    socket: extern "C" fn(User, c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(User, c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(User, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    read: unsafe extern "C" fn(User, c_int, *mut c_void, size_t) -> ssize_t,
    readv: unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t,
    recv: unsafe extern "C" fn(User, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: unsafe extern "C" fn(
        User,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    recvmsg: unsafe extern "C" fn(User, c_int, *mut msghdr, c_int) -> ssize_t,
    write: unsafe extern "C" fn(User, c_int, *const c_void, size_t) -> ssize_t,
    writev: unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t,
    send: unsafe extern "C" fn(User, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: unsafe extern "C" fn(
        User,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    sendmsg: unsafe extern "C" fn(User, c_int, *const msghdr, c_int) -> ssize_t,
    fcntl: extern "C" fn(User, c_int, c_int, c_long) -> c_int,
    ioctl: unsafe extern "C" fn(User, c_int, c_ulong, *mut c_int) -> c_int,
    close: extern "C" fn(User, c_int) -> c_int,
    shutdown: extern "C" fn(User, c_int, c_int) -> c_int,
    getsockopt: unsafe extern "C" fn(User, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: unsafe extern "C" fn(User, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: unsafe extern "C" fn(User, *mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: unsafe extern "C" fn(User, *const c_void, size_t) -> c_int,
    netdev_receive: unsafe extern "C" fn(User, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: extern "C" fn(User, c_uint) -> c_int,
    gettimeofday: unsafe extern "C" fn(User, *mut timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(User, c_int) -> c_int,
    epoll_ctl: unsafe extern "C" fn(User, c_int, c_int, c_int, *const epoll_event) -> c_int,
    epoll_wait: unsafe extern "C" fn(User, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: unsafe extern "C" fn(User, *mut c_int) -> c_int,
    splice: unsafe extern "C" fn(User, c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> ssize_t,
}

const _: () = assert!(size_of::<Interface>() == 33 * size_of::<User>());

/// What packetdrill looks up after dlopen(): starts the stack after `flags` (the text of `--so_flags`, or NULL) and fills the table.
///
/// # Safety
/// `flags` is NULL or a string, `interface` has room for the table.
// SAFETY: no other object of a process that loads this one defines the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    guard(|| {
        let flags = if flags.is_null() {
            ""
        } else {
            // SAFETY: the caller passes a string that lives on.
            let text = unsafe { CStr::from_ptr(flags) };
            text.to_str().unwrap_or_else(|_| die("--so_flags: no UTF-8"))
        };
        if interface.is_null() {
            die("packetdrill_interface_init: no table to fill");
        }
        SHARED.start(flags, system::ended_children);
        system::speak_at_exit();
        // The second belt is that every descriptor is a real one (`fds.rs`), so this is worth a word and no failure.
        for name in hooks::install() {
            say(&format!(
                "{name}() of the main program cannot be redirected: snippets with TCP_INFO, or commands with nstat, will fail"
            ));
        }
        // SAFETY: the caller's table has room for all members, and nobody reads it before we return.
        unsafe { interface.write(table()) };
    });
}

fn table() -> Interface {
    Interface {
        userdata: (&raw const SHARED).cast_mut().cast(),
        free: system::free,
        socket: sockets::socket,
        bind: sockets::bind,
        listen: sockets::listen,
        accept: sockets::accept,
        connect: sockets::connect,
        read: files::read,
        readv: files::readv,
        recv: messages::recv,
        recvfrom: messages::recvfrom,
        recvmsg: messages::recvmsg,
        write: files::write,
        writev: files::writev,
        send: messages::send,
        sendto: messages::sendto,
        sendmsg: messages::sendmsg,
        fcntl: files::fcntl,
        ioctl: files::ioctl,
        close: files::close,
        shutdown: sockets::shutdown,
        getsockopt: sockets::getsockopt,
        setsockopt: sockets::setsockopt,
        poll: epoll::poll,
        netdev_send: netdev::send,
        netdev_receive: netdev::receive,
        usleep: netdev::usleep,
        gettimeofday: netdev::gettimeofday,
        epoll_create: epoll::epoll_create,
        epoll_ctl: epoll::epoll_ctl,
        epoll_wait: epoll::epoll_wait,
        pipe: files::pipe,
        splice: files::splice,
    }
}
