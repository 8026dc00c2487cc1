"""Named tuples of the agent are those of `typing`, for less time: fields, defaults, methods and types."""

from __future__ import annotations

import pickle
import typing

from jupyter_smx.agent.system.named_tuple import NamedTuple


class Place(NamedTuple):
    """Where something is."""

    name: str
    port: int = 80
    """A description that is no field."""

    @property
    def address(self) -> str:
        """Both in one."""
        return f"{self.name}:{self.port}"

    def moved(self, name: str) -> Place:
        """Another one."""
        return self._replace(name=name)


class Usual(typing.NamedTuple):
    """The same of `typing`."""

    name: str
    port: int = 80


def test_a_named_tuple_has_fields_defaults_and_methods() -> None:
    place = Place("here")
    assert place == ("here", 80)
    assert (place.address, place.moved("there")) == ("here:80", Place("there", port=80))
    assert repr(place) == "Place(name='here', port=80)"
    assert Place.__doc__ == "Where something is."
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301 - our own


def test_programs_find_in_it_what_they_find_in_one_of_typing() -> None:
    assert issubclass(Place, tuple)
    assert (Place._fields, Place._field_defaults) == (Usual._fields, Usual._field_defaults)
    assert typing.get_type_hints(Place) == typing.get_type_hints(Usual)
    assert (Place.__module__, Place.__qualname__) == (__name__, "Place")
