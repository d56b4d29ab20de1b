"""Demand by scrapes of metrics: counts, marginals, and bounds that hold for every coupling."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalogue import Catalogue
from planner.cli import main
from planner.errors import InputError
from planner.measurements.scrapes import TokenBuckets, between, is_scrape, read_scrape
from planner.problem.demand import length_law
from planner.problem.lengths import IndependentLengths
from planner.profiles.buckets import law_of, mean_product
from planner.profiles.marginal_profile import profile_scrape
from planner.simulation.lengths import draw_lengths

EDGES = [k * 10**e for e in range(5) for k in (1, 2, 5)]


def bucketed(tokens):
    """Count lengths as the engine does."""
    edges = (*map(float, EDGES), np.inf)
    below = [int((np.asarray(tokens) <= edge).sum()) for edge in edges]
    return TokenBuckets(edges, tuple(np.diff([0, *below]).astype(float)), float(np.sum(tokens)))


def scrape(prompt, output, *, model="m", more="", stamp=""):
    lines = []
    for name, tokens in (("prompt", prompt), ("generation", output)):
        for edge in (*EDGES, np.inf):
            n = int((np.asarray(tokens) <= edge).sum())
            le = "+Inf" if np.isinf(edge) else f"{edge:.1f}"
            label = f'engine="0",le="{le}",model_name="{model}"'
            lines.append(f"vllm:request_{name}_tokens_bucket{{{label}}} {n}.0{stamp}")
        label = f'{{engine="0",model_name="{model}"}}'
        lines.append(f"vllm:request_{name}_tokens_sum{label} {np.sum(tokens)}{stamp}")
        lines.append(f"vllm:request_{name}_tokens_count{label} {len(tokens)}{stamp}")
    done = f'vllm:request_success_total{{finished_reason="stop",model_name="{model}"}}'
    lines.append(f"{done} {len(tokens)}{stamp}")
    return "# TYPE python_gc_objects_collected_total counter\n" + "\n".join(lines) + f"\n{more}"


def lengths(seed, n=2_000):
    rng = np.random.default_rng(seed)
    return [np.ceil(rng.lognormal(m, s, n)).astype(int) for m, s in ((6.0, 1.2), (4.5, 0.8))]


# -- the law of one length ------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), m=st.floats(0, 8), s=st.floats(0, 2))
def test_a_law_has_the_counts_of_its_buckets_and_the_mean_of_its_requests(seed, m, s):
    rng = np.random.default_rng(seed)
    tokens = np.clip(np.ceil(rng.lognormal(m, s, 500)), 1, 60_000).astype(int)
    buckets = bucketed(tokens)
    law, _ = law_of("prompt", buckets)
    assert law.mean == pytest.approx(tokens.mean(), abs=0.51)  # whole ends
    assert (law.low[1:] > law.high[:-1]).all()
    at = np.searchsorted(buckets.edge, law.high)
    assert np.array_equal(at, np.searchsorted(buckets.edge, law.low))
    assert law.share * 500 == pytest.approx(np.array(buckets.count)[at])


def test_lengths_that_are_all_alike_stay_alike():
    law, _ = law_of("prompt", bucketed([1024] * 50))
    assert (law.low.tolist(), law.share.tolist()) == ([1001], [1.0])
    assert law.mean == pytest.approx(1024, abs=0.51)


def test_the_last_bucket_ends_below_the_edge_that_a_longer_context_would_have():
    """No edge at 100,000 means that the context is shorter, unless the mean asks for more."""
    law, notes = law_of("prompt", bucketed([60_000, 10]))
    assert law.high[-1] <= 99_999
    assert "50.00% are longer than 50,000 tokens" in notes[0]
    assert law_of("prompt", bucketed([400_000, 10]))[0].high[-1] >= 400_000


def test_a_mean_that_its_buckets_do_not_allow_is_told():
    with pytest.raises(InputError, match=r"prompt: a mean of 3\.0 tokens does not agree"):
        law_of("prompt", TokenBuckets((10.0, 20.0, np.inf), (0.0, 5.0, 0.0), 15.0))


# -- two lengths under every coupling -------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mix=st.floats(-1, 1))
def test_shares_of_any_joint_law_lie_within_the_bounds(seed, mix):
    """The true joint law is a partly sorted pairing: from one extreme over chance to the other."""
    prompt, output = lengths(seed, 500)
    rng = np.random.default_rng(seed)
    noise = rng.random(500) * (1 - abs(mix))
    output = np.sort(output)[np.argsort(np.argsort(mix * prompt.argsort().argsort() / 500 + noise))]
    found = profile_scrape(_read(prompt, output), "x").profile
    assert len(found.joint) == 4
    for one in found.joint:
        true = np.mean((prompt > one.prompt_above) & (output > one.output_above))
        assert one.share.low - 1e-9 <= true <= one.share.high + 1e-9
        assert one.share.low <= one.share.independent <= one.share.high


def _read(prompt, output):
    from planner.measurements.scrapes import Scrape

    return Scrape(model="m", prompt=bucketed(prompt), output=bucketed(output))


def test_the_bounds_are_reached_by_sorted_pairs():
    prompt, output = map(np.sort, lengths(3))
    for second, end in ((output, "high"), (output[::-1], "low")):
        for one in profile_scrape(_read(prompt, second), "x").profile.joint:
            true = np.mean((prompt > one.prompt_above) & (second > one.output_above))
            assert getattr(one.share, end) == pytest.approx(true, abs=1e-9)


@pytest.mark.parametrize("against", [False, True])
def test_the_mean_product_is_that_of_sorted_draws(against):
    laws = [law_of("x", bucketed(tokens))[0] for tokens in lengths(5)]
    u = (np.arange(400_000) + 0.5) / 400_000
    edges = [np.cumsum(law.share) for law in laws]
    drawn = []
    for law, edge, at in zip(laws, edges, (u, 1 - u if against else u), strict=True):
        i = np.minimum(np.searchsorted(edge, at), law.share.size - 1)
        within = (at - (edge[i] - law.share[i])) / law.share[i]
        drawn.append(law.low[i] + np.floor(within * (law.high[i] - law.low[i] + 1)).clip(0))
    found = mean_product(*laws, against=against)
    assert found == pytest.approx(float((drawn[0] * drawn[1]).mean()), rel=2e-3)


def test_equal_lengths_can_be_wholly_correlated_either_way_only_if_they_are_symmetric():
    law = TokenBuckets((100.0, 200.0, np.inf), (0.0, 50.0, 0.0), 50 * 150.5)
    even = profile_scrape(_scrape(law, law), "x").profile
    assert (even.correlation.low, even.correlation.high) == pytest.approx((-1, 1), abs=1e-3)
    tail = bucketed(lengths(1)[0])
    skewed = profile_scrape(_scrape(tail, tail), "x").profile
    assert skewed.correlation.high == pytest.approx(1, abs=1e-3)
    assert -0.6 < skewed.correlation.low < 0


def _scrape(prompt, output):
    from planner.measurements.scrapes import Scrape

    return Scrape(model="m", prompt=prompt, output=output)


def test_kv_token_steps_are_those_of_a_decode_by_hand():
    """100 tokens of prompt, then 3 of output: the steps hold 101, 102 and 103 tokens."""
    found = profile_scrape(_read([100] * 9, [3] * 9), "x").profile
    # Buckets (50, 100] and (2, 5] with these means are single lengths at the edges' ends.
    assert found.kv_token_steps.independent == pytest.approx(101 + 102 + 103, rel=0.02)


# -- scrapes --------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def one(text, name="now.prom"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return one


def test_what_was_turned_away_or_cancelled_is_demand(write):
    more = (
        'vllm:request_success_total{finished_reason="abort",model_name="m"} 7\n'
        'http_requests_total{handler="/v1/chat/completions",method="POST",status="5xx"} 4\n'
        'http_requests_total{handler="/v1/completions",method="POST",status="429"} 2\n'
        'http_requests_total{handler="/v1/completions",method="POST",status="4xx"} 3\n'
        'http_requests_total{handler="/metrics",method="GET",status="5xx"} 100\n'
    )
    found = read_scrape(write(scrape(*lengths(0, 50), more=more)))
    assert found.asked == 50 + 7 + 4 + 2
    assert found.unserved == 7 + 4 + 2
    profile = profile_scrape(found, "x").profile
    assert (profile.requests, profile.failed) == (63, 13)
    assert any("3 answers of HTTP 4xx are left out" in note for note in profile.notes)


def test_two_scrapes_tell_of_the_time_between(write):
    prompt, output = lengths(0, 300)
    one = write(scrape(prompt[:100], output[:100], stamp=" 1700000000000"), "one.prom")
    two = write(scrape(prompt, output, stamp=" 1700000050000"), "two.prom")
    found = between(read_scrape(one), read_scrape(two), (one, two))
    assert (found.asked, found.span_s) == (200, 50)
    assert found.prompt == bucketed(prompt[100:])
    with pytest.raises(InputError, match=r"one.prom: a counter is below that of .*two.prom"):
        between(read_scrape(two), read_scrape(one), (two, one))
    with pytest.raises(InputError, match="no request finished since"):
        between(read_scrape(two), read_scrape(two), (two, two))


def test_one_scrape_with_its_time_and_the_start_of_the_server_has_a_rate(write):
    more = "process_start_time_seconds 1.6999999e+09\n"
    text = scrape(*lengths(0, 300), more=more, stamp=" 1700000000000")
    assert read_scrape(write(text)).span_s == pytest.approx(100)
    assert read_scrape(write(scrape(*lengths(0, 300), more=more))).span_s is None


def test_engines_add_up_and_models_do_not(write):
    prompt, output = lengths(0, 40)
    one = scrape(prompt, output)
    both = write(one + one.replace('engine="0"', 'engine="1"'))
    assert read_scrape(both).prompt.requests == 80
    path = write(one + scrape(prompt, output, model="n"))
    with pytest.raises(InputError, match="holds several models; name one by --model: m, n"):
        read_scrape(path)
    assert read_scrape(path, "n").asked == 40
    with pytest.raises(InputError, match="no lengths of a model 'o'"):
        read_scrape(path, "o")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("_bucket", "_buckets", "holds no vllm:request_prompt_tokens_bucket"),
        ('le="+Inf"', 'le="NaN"', "the bucket's edge is NaN"),
        ('le="1.0"', 'le="-5"', "an edge is no number of tokens"),
        ('le="50000.0"', 'le="1e12"', "an edge is no number of tokens"),
        ("tokens_sum", "tokens_sun", "its _sum is missing"),
        ('le="50000.0",model_name="m"} 30.0', 'le="50000.0",model_name="m"} 3', "holds less than"),
        ("_prompt_tokens_sum", "_sun", "its _sum is missing"),
        (
            '_prompt_tokens_sum{engine="0",model_name="m"} ',
            '_prompt_tokens_sum{a="b",model_name="m"} 99',
            "does not agree with the buckets",
        ),
        ('model_name="m"} 30.0', 'model_name="m"} 9e99', "expected a finite number"),
    ],
)
def test_a_scrape_that_makes_no_sense_is_told(write, capsys, old, new, told):
    text = scrape(*lengths(0, 30)).replace(old, new)
    path = write(text)
    assert is_scrape(path)
    assert main(["workload", str(path)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert str(path) in error


# -- the command ----------------------------------------------------------------------------------


def test_a_fitted_workload_has_the_counted_marginals_and_any_coupling(write, tmp_path, capsys):
    """Drawn as written, and comonotone by ``correlation: 1``: the bounds of the profile."""
    prompt, output = lengths(2, 4_000)
    path, out = write(scrape(prompt, output)), tmp_path / "w.yaml"
    assert main(["workload", str(path), "--over", "20 min", "--fit", "-o", str(out)]) == 0
    text = out.read_text()
    assert text == capsys.readouterr().out
    assert "# prompt and output: independent" in text
    assert "poisson: 3.3333 req/s" in text
    found = profile_scrape(read_scrape(path), "x")
    for correlation, end in ((None, "independent"), (1.0, "high"), (-1.0, "low")):
        law = length_law(
            found.lengths().model_copy(update={"correlation": correlation}),
            tmp_path,
            Catalogue(),
            None,
        )
        assert isinstance(law, IndependentLengths)
        p, o = draw_lengths(law, 200_000, np.random.default_rng(0))
        assert p.mean() == pytest.approx(prompt.mean(), rel=0.01)
        assert np.mean(o <= 100) == pytest.approx(np.mean(output <= 100), abs=0.003)
        product = getattr(found.profile.mean_product, end)
        assert float((p * o.astype(float)).mean()) == pytest.approx(product, rel=0.02)


def test_the_table_and_the_document_say_that_marginals_are_all_there_is(write, tmp_path, capsys):
    path, out = write(scrape(*lengths(2))), tmp_path / "p.json"
    assert main(["workload", str(path), "--over", "10 min"]) == 0
    shown = capsys.readouterr().out
    for part in ("not known, between these bounds", "independent", "mean rate: 3.33 req/s"):
        assert part in shown
    assert main(["workload", str(path), "--json", "-o", str(out)]) == 0
    assert capsys.readouterr().out == out.read_text()
    document = json.loads(out.read_text())
    assert document["knows"] == "marginals"
    assert document["rate_rps"] is None
    assert len(document["prompt"]["counts"]) == len(document["prompt"]["edges"]) + 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--column", "prompt=x"], "--column belongs to a log"),
        (["--over", "10"], "--over: expected a time with its unit"),
        (["--over", "-1 s"], "--over: "),
        (["-o", "p.html"], "a page needs single requests"),
        (["--since", "nowhere.prom"], "nowhere.prom: no such file"),
    ],
)
def test_mistakes_are_told_in_a_line(write, capsys, more, told, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path = write(scrape(*lengths(2)))
    assert main(["workload", str(path), *more]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_options_of_scrapes_belong_to_scrapes(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("prompt_tokens,output_tokens\n1,1\n")
    assert main(["workload", str(path), "--over", "1 h"]) == 2
    assert "--over belongs to a scrape of metrics" in capsys.readouterr().err
    assert main(["workload", "--users", "5", "--model", "m"]) == 2
    assert "--model belongs to a scrape of metrics" in capsys.readouterr().err
