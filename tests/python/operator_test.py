"""What Operator does where no GPU is needed: agreement on failures, groups, tensors described. torch is a stand-in."""
import ctypes
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from pathlib import Path

import syncopate
from syncopate import _dlpack, _group, _library, operator

SOURCE = Path(__file__).resolve().parents[2]


class Threads:
    """A group whose ranks are threads of this process."""

    class Member:
        def __init__(self, group, rank):
            self._group, self.rank, self.size = group, rank, group.size

        def all_gather(self, item):
            self._group.items[self.rank] = item
            self._group.barrier.wait(timeout=60)
            items = list(self._group.items)
            self._group.barrier.wait(timeout=60)
            return items

    def __init__(self, size):
        self.size, self.items, self.barrier = size, [None] * size, threading.Barrier(size)

    def run(self, act):
        """act(member) on every rank; what each returned or raised."""
        outcomes = [None] * self.size

        def one(rank):
            try:
                outcomes[rank] = act(self.Member(self, rank))
            except Exception as exception:
                outcomes[rank] = exception

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return outcomes


class Agreement(unittest.TestCase):
    def agree(self, size, act):
        return Threads(size).run(lambda member: operator._agree(member, "do it", lambda: act(member.rank)))

    def test_everyone_gets_everyones_results(self):
        self.assertEqual(self.agree(3, lambda rank: rank * 10), [[0, 10, 20]] * 3)

    def test_one_failure_is_everyones(self):
        def act(rank):
            if rank == 1:
                raise syncopate.Error("no Triton here")

        outcomes = self.agree(3, act)
        self.assertEqual({str(outcome) for outcome in outcomes}, {"rank 1 cannot do it: no Triton here"})
        self.assertTrue(all(type(outcome) is syncopate.Error for outcome in outcomes))

    def test_different_failures_are_all_named(self):
        def act(rank):
            if rank != 1:
                raise syncopate.Error(f"fault {rank}")

        self.assertEqual({str(outcome) for outcome in self.agree(3, act)},
                         {"rank 0 cannot do it: fault 0\nrank 2 cannot do it: fault 2"})

    def test_the_same_failure_everywhere_is_said_once(self):
        def act(rank):
            raise syncopate.Error("no GPU")

        self.assertEqual({str(outcome) for outcome in self.agree(3, act)}, {"no rank can do it: no GPU"})
        self.assertEqual(str(self.agree(1, act)[0]), "no GPU")

    def test_a_defect_keeps_its_type_where_it_happened(self):
        def act(rank):
            if rank == 0:
                raise syncopate.InternalError("ours")

        first, second = self.agree(2, act)
        self.assertIsInstance(first, syncopate.InternalError)
        self.assertEqual((type(second), str(second)), (syncopate.Error, "rank 0 cannot do it: ours"))


class Groups(unittest.TestCase):
    def test_any_object_of_that_shape_will_do(self):
        member = Threads(2).Member(Threads(2), 1)
        self.assertIs(_group.group_of(member), member)

    def test_alone(self):
        alone = _group.Alone()
        self.assertEqual((alone.rank, alone.size, alone.all_gather("x")), (0, 1, ["x"]))


WIDTH = 32  # of k in operators/attention_sp_zigzag.toml


class Rows:
    """As much of a tensor as filling an input takes: rows of a list, shared with whom it is a view of."""

    dtype, device = "bf16", "cuda:0"

    def __init__(self, values, begin=0, end=None):
        self._values, self._begin, self._end = values, begin, len(values) if end is None else end
        self.shape = (self._end - self._begin, WIDTH)

    def numel(self):
        return self.shape[0] * self.shape[1]

    def narrow(self, dimension, begin, length):
        assert dimension == 0
        return Rows(self._values, self._begin + begin, self._begin + begin + length)

    def __getitem__(self, box):
        rows = box[0] if isinstance(box, tuple) else box
        begin, end, _ = rows.indices(self.shape[0])
        return self.narrow(0, begin, end - begin)

    def list(self):
        return self._values[self._begin:self._end]

    def copy_(self, other):
        self._values[self._begin:self._end] = other.list()


class Zigzag(unittest.TestCase):
    """Inputs of which a rank fills two stretches."""

    def operator(self, rows, rank):
        plan = syncopate.compile(SOURCE / "operators/attention_sp_zigzag.toml",
                                 {"ranks": 2, "kernel.args.KV_LENGTH": rows})
        made = object.__new__(operator.Operator)
        made._buffers, made.rank = {buffer.name: buffer for buffer in plan.buffers}, rank
        self.memory = [0] * rows
        made.buffer = lambda name: Rows(self.memory)
        return made

    def test_plans_say_both_stretches(self):
        plan = syncopate.compile(SOURCE / "operators/attention_sp_zigzag.toml", {"ranks": 2, "kernel.args.KV_LENGTH": 16})
        k = plan.buffer("k")
        self.assertEqual((k.before, k.zigzag, plan.buffer("q").zigzag), ("zigzag(0)", 0, None))
        rows = [tuple((box[0].start, box[0].stop) for box in boxes) for boxes in k.held]
        self.assertEqual(rows, [((0, 4), (12, 16)), ((4, 8), (8, 12))])
        self.assertTrue(plan.verify())

    def test_a_shard_is_a_pair(self):
        one, other = self.operator(16, 0).shard("k")
        one.copy_(Rows([1, 2, 3, 4]))
        other.copy_(Rows([5, 6, 7, 8]))
        self.assertEqual(self.memory, [1, 2, 3, 4] + [0] * 8 + [5, 6, 7, 8])

    def test_one_tensor_or_two_are_copied_into_place(self):
        self.operator(16, 1)._fill("k", Rows(list(range(1, 9))))
        self.assertEqual(self.memory, [0] * 4 + list(range(1, 9)) + [0] * 4)
        self.operator(16, 0)._fill("k", Rows(list(range(1, 9))))
        self.assertEqual(self.memory, [1, 2, 3, 4] + [0] * 8 + [5, 6, 7, 8])
        self.operator(16, 0)._fill("k", (Rows([1, 2, 3, 4]), Rows([5, 6, 7, 8])))
        self.assertEqual(self.memory, [1, 2, 3, 4] + [0] * 8 + [5, 6, 7, 8])

    def test_a_stretch_may_be_short_or_empty(self):
        self.operator(15, 0)._fill("k", Rows(list(range(1, 8))))
        self.assertEqual(self.memory, [1, 2, 3, 4] + [0] * 8 + [5, 6, 7])
        self.operator(3, 0)._fill("k", Rows([7]))
        self.assertEqual(self.memory, [7, 0, 0])

    def test_mistakes(self):
        made = self.operator(16, 1)
        for given, problem in ((Rows([0] * 7), r"shape \(8, 32\) expected \(the two stretches of rank 1"),
                               ((Rows([0]),), "1 tensors for two stretches")):
            with self.assertRaisesRegex(syncopate.Error, problem):
                made._fill("k", given)
        with self.assertRaisesRegex(syncopate.Error, r"shape \(4, 32\) expected"):
            made._fill("k", (Rows([0] * 4), Rows([0] * 3)))


class WithoutTorch(unittest.TestCase):
    def test_an_operator_needs_torch_and_the_rest_does_not(self):
        code = ("import sys\nsys.modules['torch'] = None\nimport syncopate\n"
                f"plan = syncopate.compile({str(SOURCE / 'operators/ag_gemm.toml')!r}, {{'ranks': 1}})\n"
                "try:\n    syncopate.Operator(plan)\nexcept syncopate.Error as error:\n    print('Error:', error)\n")
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.stdout, "Error: operators take torch tensors, and torch is not installed here; install it "
                         "with: pip install torch\n", result.stderr)


class StandIn(unittest.TestCase):
    """Operator with a torch that has no GPU, or one that this machine has not."""

    def setUp(self):
        self.plan = syncopate.compile(SOURCE / "operators/ag_gemm.toml", {"ranks": 2})
        self.folder = tempfile.TemporaryDirectory()
        self.before = sys.modules.get("torch")

    def tearDown(self):
        self.folder.cleanup()
        if self.before is None:
            sys.modules.pop("torch", None)
        else:
            sys.modules["torch"] = self.before

    def prepare(self, available, size=2, **options):
        def device(kind, index=None):
            return types.SimpleNamespace(type=kind, index=index)

        sys.modules["torch"] = types.SimpleNamespace(
            device=device, cuda=types.SimpleNamespace(is_available=lambda: available, current_device=lambda: 1000))
        return Threads(size).run(
            lambda member: syncopate.Operator(self.plan, group=member, cache=self.folder.name, **options))

    def test_without_a_gpu_every_rank_says_the_same(self):
        outcomes = self.prepare(available=False)
        self.assertEqual({str(outcome) for outcome in outcomes}, {
            "no rank can prepare the operator: torch finds no GPU here; without one, plan.run() executes a plan on CPU ranks"})

    def test_the_librarys_errors_come_through(self):
        outcomes = self.prepare(available=True)  # no machine has a GPU 1000
        self.assertEqual(len({str(outcome) for outcome in outcomes}), 1)
        for outcome in outcomes:
            self.assertIsInstance(outcome, syncopate.Error)
            self.assertTrue(str(outcome).startswith("no rank can prepare the operator: there is no "), outcome)
            self.assertRegex(str(outcome), "GPU|CUDA driver")

    def test_options_are_checked_before_any_gpu_is_looked_for(self):
        outcomes = self.prepare(available=True, time_limit=-1)
        self.assertEqual({str(outcome) for outcome in outcomes},
                         {"no rank can prepare the operator: a time limit of -1 s; use 0.001 to 3600 seconds"})
        outcomes = self.prepare(available=True, share=3)
        self.assertIn("3 ranks on one GPU, of a plan of 2", str(outcomes[0]))
        outcomes = self.prepare(available=True, device="cpu")
        self.assertIn("is no CUDA device", str(outcomes[0]))

    def test_a_world_of_another_size(self):
        for outcome in self.prepare(available=True, size=3):
            self.assertEqual(str(outcome), "the plan has 2 ranks and the group 3 processes; compile it with {'ranks': 3}")


class Tensor:
    """As much of a torch tensor as calls look at."""

    dtype, device = "torch.bfloat16", types.SimpleNamespace(type="cuda", index=3)

    def __init__(self, shape, address=0x1000):
        self.shape, self.address = tuple(shape), address

    def data_ptr(self):
        return self.address

    def stride(self):
        return (self.shape[1], 1)

    def __getitem__(self, region):
        return Tensor([len(range(*each.indices(size))) for each, size in zip(region, self.shape)], self.address)


class Connected(syncopate.Operator):
    """An operator that is prepared and connected as soon as anyone asks, on no GPU."""

    def _prepare(self, options, device):
        self.device, self._handle, self._finalizer = types.SimpleNamespace(index=3), 7, lambda: None
        return b"handle"

    def _connect(self, handles):
        self.handles = handles

    def _view(self, name, part):
        return self._views.setdefault(name, Tensor(self._buffers[name].shape))


class Calls(unittest.TestCase):
    """What a call does beside the launch, which a stand-in makes."""

    def setUp(self):
        self.before, self.library_call = sys.modules.get("torch"), _library.call
        self.bound, self.launches = [], []
        sys.modules["torch"] = types.SimpleNamespace(
            _C=types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 100 + device), bfloat16="torch.bfloat16",
            empty=lambda shape, **_: Tensor(shape, 0x9000))
        _library.call = self.call

    def tearDown(self):
        _library.call = self.library_call
        if self.before is None:
            sys.modules.pop("torch", None)
        else:
            sys.modules["torch"] = self.before

    def call(self, name, *arguments):
        if name != "operator_bind":
            return self.library_call(name, *arguments)
        self.bound.append(arguments[1])

    def operator(self, name="ag_gemm", launch=None):
        group = types.SimpleNamespace(rank=1, size=2, all_gather=lambda item: [item, item])
        plan = syncopate.compile(SOURCE / f"operators/{name}.toml", {"ranks": 2})
        op = Connected(plan, group=group, cache="none")
        op._call = launch or (lambda *arguments: self.launches.append(arguments[:2]) or _library.OK)
        return op

    def test_a_launch_is_given_to_torchs_current_stream(self):
        op = self.operator()
        op(b=Tensor(op._buffers["b"].shape))
        op()
        self.assertEqual(self.launches, [(7, 103), (7, 103)])

    def test_a_torch_without_raw_streams(self):
        sys.modules["torch"]._C = types.SimpleNamespace()
        sys.modules["torch"].cuda = types.SimpleNamespace(
            current_stream=lambda device: types.SimpleNamespace(cuda_stream=200 + device))
        op = self.operator()
        op(b=Tensor(op._buffers["b"].shape))
        self.assertEqual(self.launches, [(7, 203)])

    def test_the_same_output_until_another_is_passed(self):
        op = self.operator()
        weight, own = Tensor(op._buffers["b"].shape), Tensor(op._buffers["c"].shape, 0x5000)
        first = op(b=weight)
        self.assertEqual((first.address, first.shape), (0x9000, tuple(op._buffers["c"].shape)))
        self.assertIs(op(b=weight), first)
        self.assertEqual(self.bound, [b"b", b"c"])
        self.assertEqual(op(c=own).address, 0x5000)
        self.assertEqual(op().address, 0x5000)
        self.assertEqual(len(self.bound), 3)

    def test_a_tensor_whose_memory_moved_is_bound_again(self):
        op = self.operator()
        weight = Tensor(op._buffers["b"].shape)
        op(b=weight)
        weight.address = 0x2000
        op(b=weight)
        self.assertEqual(self.bound, [b"b", b"c", b"b"])

    def test_a_reduced_output_is_the_ranks_rows(self):
        op = self.operator("gemm_rs")
        out = op(a=Tensor(op._buffers["a"].shape), b=Tensor(op._buffers["b"].shape))
        rows, columns = op._buffers["c"].shape
        self.assertEqual(out.shape, (rows // 2, columns))

    def test_an_input_that_was_never_passed(self):
        with self.assertRaisesRegex(syncopate.Error, "tensor b was never passed"):
            self.operator()()
        self.assertEqual(self.launches, [])

    def test_what_a_failed_launch_says_is_raised_each_time(self):
        real = _library.library.syncopate_operator_call
        codes = [_library.USER_ERROR, _library.USER_ERROR, _library.OUT_OF_MEMORY]

        def launch(handle, stream, error):
            if codes.pop(0) == _library.USER_ERROR:
                return real(None, stream, error)
            return _library.OUT_OF_MEMORY  # no memory even for the message

        op = self.operator(launch=launch)
        weight = Tensor(op._buffers["b"].shape)
        for _ in range(2):
            with self.assertRaisesRegex(syncopate.Error, "op is NULL"):
                op(b=weight)
        self.assertRaises(MemoryError, op, b=weight)


class Dlpack(unittest.TestCase):
    def tensor(self, dtype="torch.bfloat16", device="cuda", index=1):
        return types.SimpleNamespace(
            dtype=dtype, device=types.SimpleNamespace(type=device, index=index), shape=(3, 4), stride=lambda: (4, 1),
            data_ptr=lambda: 0x1000)

    def test_a_tensor_is_described(self):
        described = _dlpack.as_dlpack("b", self.tensor())
        self.assertEqual((described.data, described.ndim, described.shape[0], described.shape[1], described.strides[0]),
                         (0x1000, 2, 3, 4, 4))
        self.assertEqual((described.code, described.bits, described.lanes, described.device_type, described.device_id),
                         (4, 16, 1, _library.KDL_CUDA, 1))
        self.assertEqual(_dlpack.as_dlpack("b", self.tensor(device="cpu", index=None)).device_type, _library.KDL_CPU)

    def test_what_is_no_tensor(self):
        with self.assertRaisesRegex(syncopate.Error, "tensor b: a dense torch tensor expected, got list"):
            _dlpack.as_dlpack("b", [1, 2])
        with self.assertRaisesRegex(syncopate.Error, "tensor b: dtype torch.quint8 has no counterpart"):
            _dlpack.as_dlpack("b", self.tensor(dtype="torch.quint8"))

    def test_every_dtype_of_plans_has_one_of_torch(self):
        self.assertEqual({_dlpack._NAMES[name] for name in _dlpack._NAMES} - set(_dlpack._CODES), set())
        self.assertEqual(len(set(_dlpack._NAMES.values())), 15)

    def test_structs_are_laid_out_as_in_c(self):
        self.assertEqual(ctypes.sizeof(_library.DLTensor), 48)
        options = _library.OperatorOptions()
        _library.library.syncopate_operator_options_init(ctypes.byref(options))
        self.assertEqual(options.size, ctypes.sizeof(options))
        self.assertEqual((options.ranks_on_device, options.time_limit, options.python, options.withheld_queue,
                          options.withheld_launch), (1, 10.0, b"python3", -1, 1))
        run = _library.RunOptions()
        _library.library.syncopate_run_options_init(ctypes.byref(run))
        self.assertEqual((run.size, run.repeat), (ctypes.sizeof(run), 1))


if __name__ == "__main__":
    unittest.main()
