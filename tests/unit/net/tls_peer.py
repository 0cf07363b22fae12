"""An HTTPS server on loopback that wants a client's certificate. Ends with its standard input.

    tls_peer.py DIR      makes certificates in DIR, prints its port

/count says how many connections there were, /cut ends in the middle without a word, /stream leaves HTTP and echoes.
"""
import os
import socket
import ssl
import subprocess
import sys
import threading

folder = sys.argv[1]


def certificate(name, issuer, names):
    """A key and a certificate for ten years; issuer None: its own."""
    by = ["-CA", f"{folder}/{issuer}.pem", "-CAkey", f"{folder}/{issuer}.key"] if issuer else []
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "3650", "-subj", f"/CN={name}", "-keyout", f"{folder}/{name}.key",
                    "-out", f"{folder}/{name}.pem", *by,
                    "-addext", f"basicConstraints=critical,CA:{'FALSE' if issuer else 'TRUE'}",
                    *(["-addext", f"subjectAltName={names}"] if names else [])],
                   check=True, capture_output=True)


def read_head(stream):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = stream.recv(1)
        if not byte:
            return None
        head += byte
    return head.split()[1]


def serve(connection, number):
    stream = context.wrap_socket(connection, server_side=True)
    while (path := read_head(stream)) is not None:
        if path == b"/count":
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number)
        elif path == b"/cut":
            stream.sendall(b"HTTP/1.1 200 OK\r\n\r\nnot all")
            os.close(stream.detach())
            return
        else:
            stream.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\nearly")
            while (bytes_read := stream.recv(65536)) and bytes_read != b"end":
                stream.sendall(bytes_read)
            stream.unwrap()
            return


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def answer(connection, number):
    try:
        serve(connection, number)
    except OSError:  # a client that doesn't trust us, or whom we don't
        connection.close()


certificate("ca", None, None)
certificate("other-ca", None, None)
certificate("server", "ca", "IP:127.0.0.1")
certificate("client", "ca", None)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
context.load_verify_locations(f"{folder}/ca.pem")
context.verify_mode = ssl.CERT_REQUIRED
listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=end_with_input, daemon=True).start()
print(listener.getsockname()[1], flush=True)
count = 0
while True:
    accepted, _ = listener.accept()
    count += 1
    threading.Thread(target=answer, args=(accepted, count), daemon=True).start()
