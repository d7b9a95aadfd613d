//! Messages to the service manager: one datagram to the socket that NOTIFY_SOCKET names (sd_notify(3)).

use std::io;
use std::os::unix::net::UnixDatagram;

/// Sends `state`; false where nobody asked to be notified.
pub(super) fn notify(state: &str) -> io::Result<bool> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return Ok(false);
    };
    let socket = UnixDatagram::unbound()?;
    match name.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => send_abstract(&socket, name, state)?,
        None => drop(socket.send_to(state.as_bytes(), &name)?),
    }
    Ok(true)
}

#[cfg(target_os = "linux")]
fn send_abstract(socket: &UnixDatagram, name: &[u8], state: &str) -> io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn send_abstract(_: &UnixDatagram, _: &[u8], _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
