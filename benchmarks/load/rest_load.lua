-- Bodies of requests, one a line of a file, one after the other; JSON at the end.
--   wrk -t1 -c32 -d10s -s rest_load.lua URL -- BODIES
local bodies, turn = {}, 0

function init(arguments)
  for line in io.lines(arguments[1]) do bodies[#bodies + 1] = line end
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
end

function request()
  turn = turn % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[turn])
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"texts_per_second": %f, "p50_ms": %f, "p99_ms": %f, "requests": %d, "failures": %d}\n',
    summary.requests * 1e6 / summary.duration, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, summary.requests,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
