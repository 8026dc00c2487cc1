"""Find the fsspec file system of a URL, or the package that it needs."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from jupyter_smx.agent.stores import objects, url_schemes

_CONNECTING, _SILENCE = 30.0, 300.0
"""Seconds to wait for a connection, and for data; the whole file may take any time."""


class PackageMissingError(Exception):
    """A package is not installed here."""


def required_packages(url: str) -> str:
    """Name the packages by which a URL is read and written, as pip has them."""
    through = objects.split_chain(url)[1][2:] or url
    return " ".join(filter(None, ("fsspec", url_schemes.PACKAGES.get(objects.protocol(through), ""))))


def is_web(url: str) -> bool:
    """Return True if a URL is one of the web, whose folders are HTML pages."""
    return objects.protocol(url) in url_schemes.WEB


def _options(url: str) -> Dict[str, Any]:
    """Return the options of the file system of a URL, for the inside of an archive also those of the archive."""
    _inside, archive = objects.split_chain(url)
    if archive:
        return {archive[2:].split("://", 1)[0]: _options(archive[2:])}
    if not is_web(url) and objects.protocol(url) not in url_schemes.GOOGLE:
        return {}
    import aiohttp  # noqa: PLC0415 - only where it is installed

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING, sock_read=_SILENCE)
    return {"client_kwargs": {"timeout": timeout}} if is_web(url) else {"requests_timeout": timeout}


def find_filesystem(url: str, *, cached: bool = False, fresh: bool = False) -> Tuple[Any, str]:
    """Return the file system of a URL, and the path of the URL there; with ``cached`` it may store its listings.

    With ``fresh``, a file system that consists of one connection is a new one: fsspec caches instances, even if the
    server has closed the connection meanwhile.

    :raises LackError: a package is not installed here.
    """
    try:
        import fsspec.core  # noqa: PLC0415 - only here, and only where it is installed
    except ImportError as error:
        raise PackageMissingError("fsspec") from error
    if objects.protocol(url) in url_schemes.WITHOUT_URLS:
        raise ValueError("fsspec has no URLs for this protocol: mount the server, or use https://")
    try:
        words = _options(url)
        if objects.protocol(url) not in url_schemes.SSH:  # it keeps no listings, and passes every option to its library
            words["use_listings_cache"] = cached
        if "://" not in url or objects.split_chain(url)[1]:
            system, path = fsspec.core.url_to_fs(url, **words)
        else:  # that function treats every :: as a chain, but a key may contain one
            kind = fsspec.get_filesystem_class(url.split("://", 1)[0])
            words["skip_instance_cache"] = fresh and not kind.async_impl
            told = kind._get_kwargs_from_urls(url)  # noqa: SLF001 - as fsspec does
            system, path = kind(**{**told, **words}), kind._strip_protocol(url)  # noqa: SLF001 - as fsspec does
    except ImportError as error:
        raise PackageMissingError(
            url_schemes.PACKAGES.get(objects.protocol(objects.split_chain(url)[1][2:] or url), str(error))
        ) from error
    return system, str(path)
