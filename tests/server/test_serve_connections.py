"""Connections that send nothing, or only a part of a request, keep nobody else out."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
from served_folders import client_of

from pivec.server.application import listening, make_server

PARTS = {
    "nothing": b"",
    "a line": b"GET / HTTP/1.1\r\n",
    "headers": b"GET / HTTP/1.1\r\nHost: x\r\nA",
}


@contextmanager
def serving(folder, idle, busy=0.0):
    handlers = client_of(folder).handlers
    handlers.worker.submit(time.sleep, busy)
    with listening(0) as listener:
        server, address = make_server(handlers, listener, idle)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address, listener.getsockname()
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def version(address):
    with urllib.request.urlopen(f"{address}version", timeout=20) as answer:
        return answer.status


def is_closed(connection, seconds):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_300_incomplete_requests_lock_nobody_out(made):
    with serving(made, idle=60) as (address, place), ExitStack() as stack:
        parts = list(PARTS.values())
        for k in range(300):
            half = stack.enter_context(socket.create_connection(place))
            half.sendall(parts[k % len(parts)])
        for _ in range(3):
            assert version(address) == 200


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_an_incomplete_request_is_closed_after_a_while(made, part):
    with serving(made, idle=0.4) as (address, place), socket.create_connection(place) as half:
        half.sendall(part)
        assert not is_closed(half, 0.3)
        assert is_closed(half, 5)
        assert version(address) == 200


def test_one_that_sends_a_byte_now_and_then_is_closed_too(made):
    with serving(made, idle=0.2) as (_, place), socket.create_connection(place) as half:
        begun, is_open = time.monotonic(), True
        while is_open and time.monotonic() - begun < 5:
            try:
                half.sendall(b"G")
            except ConnectionError:
                is_open = False
            time.sleep(0.05)
        assert not is_open


def test_each_request_of_a_connection_has_its_own_time(made):
    with serving(made, idle=0.4) as (address, place), ExitStack() as stack:
        client = http.client.HTTPConnection(*place, timeout=20)
        stack.callback(client.close)
        client.connect()
        connection = client.sock
        for _ in range(4):  # together longer than an incomplete request may take
            client.request("GET", f"{urlsplit(address).path}version")
            assert client.getresponse().read().startswith(b"{")
            time.sleep(0.25)
        assert client.sock is connection
        connection.sendall(b"GET /")
        assert is_closed(connection, 5)


def test_a_slow_answer_is_waited_for(made):
    with (
        serving(made, idle=0.2, busy=1.0) as (address, _),
        urllib.request.urlopen(address, timeout=20) as answer,
    ):
        assert answer.status == 200
