"""libsyncopate.so through ctypes: prototypes, and exceptions instead of codes. Private; capi/syncopate.h documents it."""
import ctypes
import pathlib

from syncopate.errors import Error, InternalError, LaunchFailed

ABI_VERSION = 1
OK, USER_ERROR, FAILED, OUT_OF_MEMORY, STOPPED, INTERNAL_ERROR = range(6)
WHOLE, SHARD, OUTPUT = range(3)

Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Override(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class RunOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("seed", ctypes.c_uint64), ("repeat", ctypes.c_int32),
                ("adversary", ctypes.c_int32), ("reals", ctypes.c_int32), ("progress", Progress),
                ("progress_context", ctypes.c_void_p)]


class OperatorOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("rank", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ranks_on_device", ctypes.c_int32), ("time_limit", ctypes.c_double), ("python", ctypes.c_char_p),
                ("cache", ctypes.c_char_p), ("withheld_queue", ctypes.c_int32), ("withheld_transfer", ctypes.c_int32),
                ("withheld_launch", ctypes.c_int64)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


KDL_CPU, KDL_CUDA = 1, 2

_PLAN = _OPERATOR = _ERROR = ctypes.c_void_p
_TEXT, _SIZE = ctypes.c_char_p, ctypes.c_size_t
_OUT = ctypes.POINTER(ctypes.c_void_p)

_FAILING = {
    "plan_compile": [_TEXT, ctypes.POINTER(Override), _SIZE, _OUT],
    "plan_parse": [_TEXT, ctypes.c_char_p, _SIZE, _OUT],
    "plan_load": [_TEXT, _OUT],
    "plan_json": [_PLAN, _OUT],
    "plan_fused_source": [_PLAN, _OUT],
    "plan_show": [_PLAN, _OUT],
    "plan_describe": [_PLAN, _OUT],
    "plan_verify": [_PLAN, _OUT],
    "plan_run": [_PLAN, ctypes.POINTER(RunOptions), _OUT],
    "operator_create": [_PLAN, ctypes.POINTER(OperatorOptions), _OUT],
    "operator_handle": [_OPERATOR, _OUT, ctypes.POINTER(_SIZE)],
    "operator_connect": [_OPERATOR, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(_SIZE), _SIZE],
    "operator_bind": [_OPERATOR, _TEXT, ctypes.POINTER(DLTensor)],
    "operator_view": [_OPERATOR, _TEXT, ctypes.c_int, _OUT],
    "operator_call": [_OPERATOR, ctypes.c_void_p],
    "operator_prepare_local": [_OPERATOR],
    "operator_call_local": [_OPERATOR, ctypes.c_void_p],
    "operator_status": [_OPERATOR],
    "operator_synchronize": [_OPERATOR],
}
_OTHERS = {
    "abi_version": (ctypes.c_int, []),
    "version": (ctypes.c_char_p, []),
    "error_code": (ctypes.c_int, [_ERROR]),
    "error_message": (ctypes.c_char_p, [_ERROR]),
    "error_problem": (ctypes.c_char_p, [_ERROR]),
    "error_remedy": (ctypes.c_char_p, [_ERROR]),
    "error_file": (ctypes.c_char_p, [_ERROR]),
    "error_line": (ctypes.c_int, [_ERROR]),
    "error_column": (ctypes.c_int, [_ERROR]),
    "error_free": (None, [_ERROR]),
    "text_free": (None, [ctypes.c_void_p]),
    "plan_free": (None, [_PLAN]),
    "run_options_init": (None, [ctypes.POINTER(RunOptions)]),
    "operator_options_init": (None, [ctypes.POINTER(OperatorOptions)]),
    "operator_destroy": (None, [_OPERATOR]),
}


class Stopped(Exception):
    """A progress function asked for the work to stop."""


def _load():
    path = pathlib.Path(__file__).with_name("libsyncopate.so")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded ({error}); install the wheel that `make wheel` builds") from error
    for name, arguments in _FAILING.items():
        function = getattr(library, "syncopate_" + name)
        function.restype = ctypes.c_int
        function.argtypes = [*arguments, ctypes.POINTER(ctypes.c_void_p)]
    for name, (result, arguments) in _OTHERS.items():
        function = getattr(library, "syncopate_" + name)
        function.restype = result
        function.argtypes = arguments
    if library.syncopate_abi_version() != ABI_VERSION:
        raise ImportError(f"{path} is of another version than the Python files beside it; install the wheel again")
    return library


library = _load()


def _exception(error):
    def text(part):
        return getattr(library, "syncopate_error_" + part)(error).decode(errors="replace")

    code, message = library.syncopate_error_code(error), text("message")
    if code == OUT_OF_MEMORY:
        return MemoryError(message)
    if code == STOPPED:
        return Stopped()
    if code == INTERNAL_ERROR:
        return InternalError(message)
    return (LaunchFailed if code == FAILED else Error)(
        message, problem=text("problem"), remedy=text("remedy"), file=text("file"),
        line=library.syncopate_error_line(error), column=library.syncopate_error_column(error))


def call(name, *arguments):
    """Calls syncopate_<name>; raises what it reports."""
    check(getattr(library, "syncopate_" + name), *arguments)


def check(function, *arguments):
    """Calls a function of the library whose last parameter is for the error; raises what it reports."""
    error = ctypes.c_void_p()
    if function(*arguments, ctypes.byref(error)) != OK:
        raise taken(error)


def taken(error):
    """The exception for what a function that failed left in `error`, which is freed and emptied."""
    if not error:
        return MemoryError("not enough memory")
    try:
        return _exception(error)
    finally:
        library.syncopate_error_free(error)
        error.value = None


def text_of(name, *arguments):
    """The text that syncopate_<name> makes."""
    text = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(text))
    try:
        return ctypes.string_at(text).decode()
    finally:
        library.syncopate_text_free(text)
