"""Holds a slot of a Sluicegate concurrency limit while some work runs. Standard library only: copy this file.

A slot is a lease. A thread renews it; where that fails for so long that the lease may have ended, the slot is lost:
``slot.lost`` is set and ``slot.ensure_held()`` raises, and the work has to stop. That moment is counted from before the
last renewal was sent, by whichever of two clocks has moved further, so it never comes after the lease's own end, also
where the process was stopped or the machine slept. What the work writes should still carry ``slot.fence``.

    slots = Slots("https://gateway.example", token)
    with slots.hold("diagnoses", ["tenant-1"], wait=30) as slot:
        for step in steps:
            slot.ensure_held()
            step.run(fence=slot.fence)
            with slot.paused(wait=60):
                ask_a_person()
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

#: Longest time that the gateway waits for one request, in seconds. Longer waits are several, each at the end of the queue.
LONGEST_WAIT = 60.0
#: How long one request may take beyond the wait that it asks for, in seconds.
PATIENCE = 10.0
#: Requests for one step where the gateway does not answer.
ATTEMPTS = 4


class SlotsError(Exception):
    """The gateway did not do what was asked. ``status`` is the HTTP status, 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class SlotRefused(SlotsError):
    """Every slot is taken. ``retry_after`` says, in seconds, when asking again may help."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, 429)
        self.retry_after = retry_after


class LeaseLost(Exception):
    """The lease ended, or may have: somebody else can hold the slot now."""


class _Age:
    """Seconds since it was made: one clock stands still while a machine sleeps, the other can be set."""

    def __init__(self) -> None:
        self._steady, self._wall = time.monotonic(), time.time()

    def __call__(self) -> float:
        return max(time.monotonic() - self._steady, time.time() - self._wall)


class Slots:
    """The slots of one gateway; ``token`` is the one of its admin API."""

    def __init__(self, url: str, token: str) -> None:
        self._base = url.rstrip("/") + "/.sluicegate/v1/slots"
        self._token = token

    @contextlib.contextmanager
    def hold(self, limit: str, subject: list[str], wait: float = 0.0, id: str | None = None):
        """A slot for the length of a ``with`` block, freed however the block ends.

        ``subject`` is a value for each part of the limit's key, ``[]`` for ``global``; ``wait`` is how long to queue,
        in seconds. Raises SlotRefused when none was to be had, LeaseLost when the block ended after its lease had.
        """
        slot = self.take(limit, subject, wait, id)
        try:
            yield slot
            slot.ensure_held()
        finally:
            slot.free()

    def take(self, limit: str, subject: list[str], wait: float = 0.0, id: str | None = None) -> Slot:
        """A slot, to be freed by ``slot.free()``. Asking again with the same ``id`` gets the same slot."""
        parts = [urllib.parse.quote(part, safe="") for part in subject] or ["-"]
        slot = Slot(self, f"/{urllib.parse.quote(limit, safe='')}/{','.join(parts)}", id or uuid.uuid4().hex)
        slot._take("", {"id": slot.id}, wait)
        return slot

    def _call(self, method: str, path: str, body: dict, wait=lambda: 0.0, within=lambda: True):
        """One call, made again where there is no answer or the store is away: every one is idempotent.

        ``wait`` says for how long it may still wait, in seconds; ``within`` whether asking again still makes sense.
        """
        failure = SlotsError("the gateway was not asked")
        for attempt in range(ATTEMPTS):
            if not within():
                break
            if attempt:
                time.sleep(random.random() * 0.1 * 2**attempt)
            waits = wait()
            query = f"?wait={math.ceil(waits * 1000)}ms" if waits > 0 else ""
            request = urllib.request.Request(
                self._base + path + query,
                method=method,
                data=json.dumps(body).encode(),
                headers={"authorization": f"Bearer {self._token}", "content-type": "application/json"},
            )
            try:
                with urllib.request.urlopen(request, timeout=waits + PATIENCE) as response:
                    return response.status, json.loads(response.read() or b"{}"), 0.0
            except urllib.error.HTTPError as error:
                with error:
                    answer = _json(error.read())
                    if error.code < 500:
                        return error.code, answer, _seconds(error.headers.get("retry-after"))
                failure = SlotsError(answer.get("detail") or f"the gateway answered {error.code}", error.code)
            except (OSError, ValueError, http.client.HTTPException) as error:
                failure = SlotsError(f"the gateway did not answer: {error}")
        raise failure


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdigit() else 0.0


def _json(data: bytes) -> dict:
    try:
        answer = json.loads(data)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


class Slot:
    """A slot that is held, until it is freed, paused or lost."""

    def __init__(self, slots: Slots, path: str, id: str) -> None:
        self.id = id
        #: Rises with every lease of this subject's: whoever is written to refuses a lower one than it has seen.
        self.fence = 0
        #: Set when the lease is lost.
        self.lost = threading.Event()
        self._slots, self._path = slots, path
        self._lease = 0.0
        self._age = _Age()
        self._state = "freed"
        self._why = ""
        self._changed = threading.Condition()

    def ensure_held(self) -> None:
        """Raises LeaseLost unless the slot is surely still held."""
        with self._changed:
            self._watch()
            if self._state != "held":
                raise LeaseLost(self._why or f"the slot is {self._state}")

    def free(self) -> None:
        """Gives the slot back. A second time, or after it was lost, changes nothing."""
        with self._changed:
            was, self._state = self._state, "lost" if self._state == "lost" else "freed"
            self._changed.notify_all()
        # A pause whose answer was lost may not have been heard of.
        if was in ("held", "paused"):
            self._give_back()

    def _give_back(self) -> None:
        # What cannot be given back ends with its lease.
        with contextlib.suppress(SlotsError):
            self._slots._call("DELETE", f"{self._path}/{self.id}", {"fence": self.fence})

    @contextlib.contextmanager
    def paused(self, wait: float = 0.0):
        """Gives the place back for the length of a ``with`` block and asks for it again after; the fence is higher then."""
        self.pause()
        yield
        self.resume(wait)

    def pause(self) -> None:
        self.ensure_held()
        with self._changed:
            self._state = "paused"
            self._changed.notify_all()
        self._slots._call("POST", f"{self._path}/{self.id}/pause", {"fence": self.fence})

    def resume(self, wait: float = 0.0) -> None:
        if self._state != "paused":
            raise SlotsError(f"only a paused slot is resumed; this one is {self._state}")
        self._take(f"/{self.id}/resume", {"fence": self.fence}, wait)

    def _take(self, step: str, body: dict, wait: float) -> None:
        waited = _Age()

        def left() -> float:
            return max(0.0, wait - waited())

        def now() -> float:
            return min(left(), LONGEST_WAIT)

        while True:
            age, asked = _Age(), now()
            status, answer, retry_after = self._slots._call("POST", self._path + step, body, wait=now)
            if status in (200, 201):
                lease = answer["lease_ms"] / 1000
                if age() < lease / 3:
                    break
                # It was taken at some moment of a long wait; a renewal tells how old the lease is.
                age = _Age()
                body_of_renewal = {"fence": answer["fence"]}
                status, answer, retry_after = self._slots._call("PUT", f"{self._path}/{self.id}", body_of_renewal)
                if status == 200:
                    break
                continue
            detail = answer.get("detail") or f"the gateway answered {status}"
            if status != 429:
                raise SlotsError(detail, status)
            # Without a moment to come back at, waiting helps nothing: the subject is banned.
            if not left() or not retry_after:
                raise SlotRefused(detail, retry_after)
            # A refusal that came at once is no wait.
            if age() < asked:
                time.sleep(min(retry_after, left()))
        with self._changed:
            freed = step and self._state == "freed"
            self.fence = answer["fence"]
            if not freed:
                self._hold(answer, age)
        if freed:
            self._give_back()
            raise SlotsError("the slot was freed while it was asked for again")
        threading.Thread(target=self._keep, args=(self.fence,), daemon=True).start()

    def _hold(self, answer: dict, age: _Age) -> None:
        self.fence, self._lease, self._age, self._state = answer["fence"], answer["lease_ms"] / 1000, age, "held"

    def _watch(self) -> None:
        if self._state == "held" and self._age() >= self._lease:
            self._lose("the lease was not renewed in time")

    def _lose(self, why: str) -> None:
        self._state, self._why = "lost", why
        self.lost.set()
        self._changed.notify_all()

    def _keep(self, fence: int) -> None:
        """Renews until the slot is no longer this lease's; runs in a thread of its own."""
        end = threading.Thread(target=self._end, args=(fence,), daemon=True)
        end.start()
        due = self._lease / 3
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._is(fence), timeout=max(0.0, due - self._age()))
                self._watch()
                if not self._is(fence):
                    return
            age = _Age()
            alive = lambda: self._is(fence) and self._age() < self._lease  # noqa: E731
            try:
                status, answer, _ = self._slots._call("PUT", f"{self._path}/{self.id}", {"fence": fence}, within=alive)
            except SlotsError:
                due = self._age() + self._lease / 12
                continue
            with self._changed:
                if not self._is(fence):
                    return
                if status == 200:
                    self._hold(answer, age)
                    due = self._lease / 3
                else:
                    self._lose(answer.get("detail") or f"the gateway answered {status}")

    def _end(self, fence: int) -> None:
        """Declares the lease lost at its end, whether or not the gateway answers."""
        with self._changed:
            while self._is(fence):
                self._watch()
                self._changed.wait_for(lambda: not self._is(fence), timeout=max(0.0, self._lease - self._age()))

    def _is(self, fence: int) -> bool:
        return self._state == "held" and self.fence == fence


class FenceGuard:
    """The other half of a fence, for whoever is written to: refuses what comes with a lower fence than was seen before.

    This one remembers in the memory of one process; where more than one writes, the same comparison belongs into the
    statement that writes (see README.md).
    """

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}
        self._lock = threading.Lock()

    def admits(self, resource: str, fence: int) -> bool:
        """Whether a write to the resource with this fence may go on."""
        with self._lock:
            if fence < self._highest.get(resource, 0):
                return False
            self._highest[resource] = fence
            return True
