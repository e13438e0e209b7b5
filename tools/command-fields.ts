/** The fields of what subcommands print with --json, for docs/api/command-json.md. */

/** Meanings of fields; `[]` ends the name of a list. Fields of one meaning share an entry, as in `from, to`. */
export interface Fields {
  readonly [names: string]: string | Fields
}

const PLACE: Fields = {
  'redis, gateway': 'host that was asked: of the database, or of the gateway with --gateway',
}

const SWEEP: Fields = {
  'complete, dryRun': 'whether it came to the end, and whether it changed nothing',
  match: 'the pattern',
  seen: 'matching keys that were found, each once for every time that SCAN returned it',
  gone: 'keys that were gone when their turn came',
  unnameable: 'keys that were skipped because their names are not text (over REST only)',
  share: 'share of the database that was gone through, 0 to 1',
  'seconds, keysPerSecond': 'time taken, by earlier runs as well, and matching keys found in a second by this run',
  longestScriptMs: 'the longest script, by the server’s clock; null if that stands still in scripts',
  pauses: 'how often it waited for the server',
  matching: 'of a sample: keys of the whole database that match, by estimate; else null',
  'examples[]': 'name of one of the keys found',
}

const ENTRY: Fields = {
  'by, digest':
    'what the caller is identified by, such as token, and its digest as in keys and logs; by may be missing',
  value: 'in place of a digest: a value with one *',
  cidr: 'in place of a caller: a network',
  'reason, until': 'why, and when it ends, in RFC 3339; missing: no reason, never',
}

const RULE: Fields = {
  ...PLACE,
  version: 'version of the rules; 0: there are none',
  changed: 'whether this run has written it',
  scope:
    'which requests of the target it is about: "all", or by a digest alone "counted", those to which a policy applies that counts by all that the digest was made of',
}

/** By the name of the subcommand. */
export const FIELDS: Readonly<Record<string, Fields>> = {
  check: {
    ok: 'true if the exit code is 0',
    'file, environment': 'the file that was read, and its environment; null for the top of the file',
    'findings[]': {
      level:
        '"error" (the Worker would refuse to start, or does not get a value of the file), "warning" (surely a mistake) or "note"',
      code: 'what kind of finding it is, as in docs/cli.md',
      'message, hint': 'what is wrong, in one line, and what to do, which may be missing',
      'file, line, column': 'where, from 1; the file may be a text such as "X of the shell", and all may be missing',
    },
    request: {
      'method, path': 'the request, if one was named, with its path as policies see it',
      verdict: 'how it is answered without counting (exempt, 400, 401 …), and why; null if policies decide',
      priority: '"critical", "default" or "sheddable"; null if policies are skipped',
      'policies[]': {
        policy: 'name of the policy',
        'applies, why': 'whether it decides about the request, and why; all that follows only if the policy counts',
        identity: 'what the caller is counted by',
        key: 'key in Redis, with the digest of the caller in braces',
        'cost, reserved': 'units that the request costs, and units that it leaves to more important ones',
        'limits[]': 'limits, such as "10 per 1s"',
        penalty: 'such as "10m after 5 refusals"; may be missing',
        mode: '"enforce", or "shadow" if the policy refuses nothing',
      },
    },
  },
  simulate: {
    complete: 'false if Ctrl-C ended it',
    'requests, lines, unreadable': 'requests replayed, lines read without empty ones, and lines that could not be read',
    'from, to': 'times of the first and the last request, in RFC 3339; null if there was none',
    firstUnreadable: 'null if there was none',
    'firstUnreadable.file, firstUnreadable.line': 'where the first unreadable line is, from 1',
    'firstUnreadable.text': 'its first 100 characters',
    seconds: 'time taken',
    requestsPerSecond: 'requests replayed in a second, through each of the limits',
    out: 'file that --out has written; null without it',
    'notes[]': 'where this cannot do what the Worker does',
    'results[]': {
      'limits, algorithm, leases': 'what was tried, as given; null: as configured, and no leases',
      'admitted, refused': 'requests admitted, and refused by limits (429) or for a reserve (503)',
      rejected: 'requests answered without counting: for their path, caller or cost, or at /_sluice',
      'policies[]': {
        policy: 'name of the policy',
        mode: '"enforce", or "shadow" if the policy refuses nothing',
        'requests, admitted, refused':
          'requests that it counted, admitted and refused; in shadow mode, would have refused',
      },
      'callers[]': {
        policy: 'policy that refused one of the ten callers refused most',
        digest: 'the caller as in keys',
        caller: 'the caller as in the log; only with --show-callers',
        refused: 'how often; in shadow mode, how often it would have',
      },
      uncertainty: 'how often more, at most: 0, as all are counted',
      'wait.medianMs, wait.p95Ms, wait.longestMs':
        'time until refused requests would be admitted: of half of them, of 95 of 100, of all, within a thousandth; null if none was refused',
      calls: 'calls of the script; without --leases, one for every request that is counted: the Worker makes fewer',
      'commands, dollars': 'commands that Upstash would bill for them, and their price at $0.20 for 100,000',
      bucketMs: 'length of a bucket of time, in milliseconds',
      'buckets[]': {
        from: 'when it begins',
        'admitted, refused': 'requests admitted and refused in it',
        'policies[].admitted, policies[].refused': 'the same of each policy, in the order of policies',
      },
    },
  },
  usage: {
    ...PLACE,
    nowMs: 'the store’s clock, in milliseconds since the Unix epoch',
    blocked: 'the block of the rules that refuses the caller; null: none',
    'blocked.status, blocked.reason':
      'status of its responses, and why, as the caller reads it; the reason may be null',
    'blocked.until': 'when it ends, in RFC 3339; null: never',
    'limits[]': {
      'policy, name': 'the policy, and the name of the limit as in response headers',
      route: 'the pattern that it is about, if the policy counts by route; else null',
      key: 'key in the store',
      plan: 'the plan whose limits these are, if limits go by plan; else null',
      limit: 'units admitted in the window, what a bucket holds, or slots; as the rules have it for this caller',
      configuredLimit: 'the same, as the policy has it for all',
      unlimited: 'true if the rules never limit the caller by it',
      shared: 'true if it is counted for all callers together: a reset of this one leaves it as it is',
      windowMs: 'length of the window in milliseconds; by the calendar, the longest',
      'used, remaining': 'units',
      resetMs: 'milliseconds until more than that remains; 0 if all does',
      retryAfterMs: 'milliseconds until a request is admitted; 0 if it is now',
      penaltyUntilMs: 'end of a penalty, in milliseconds since the Unix epoch; null: none',
    },
    'skipped[]': {
      'policy, reason': 'a policy that was skipped, and why',
    },
  },
  reset: {
    ...PLACE,
    reset: 'whether the keys were deleted; false if the answer to the question was no',
    'keys[]': {
      'policy, key': 'what was deleted',
      used: 'units that its limits had counted, the most of them',
    },
    'skipped[]': {
      'policy, reason': 'a policy that was skipped, and why',
    },
  },
  block: {
    ...RULE,
    'entries[]': {
      ...ENTRY,
      'country, asn': 'in place of a caller: a country, or the number of a network operator',
      status: 'of the responses; missing: 403',
    },
  },
  allow: {
    ...RULE,
    'entries[]': {
      ...ENTRY,
    },
  },
  override: {
    ...RULE,
    'entries[]': {
      ...ENTRY,
      'limits[].policy, limits[].limits': 'a policy, and its limits for this caller',
      'multiplier, unlimited': 'in place of limits: by what they are multiplied, or true if they refuse nothing',
      'policies[]': 'policies that it is about; missing: all',
    },
  },
  policies: {
    ...PLACE,
    version: 'version of the rules; 0: there are none',
    'id, atMs, actor, comment': 'show: as those of versions[]',
    changed: 'push and rollback: whether this run has written it',
    'policies[].*, candidate[].*': 'show: the tables in place of POLICIES, and those of candidate policies',
    'blocks, allows, overrides': 'show: the number of each',
    source: 'show: "rules" if the tables are those of the rules, "POLICIES" if they are those of the variable',
    'changes[]': {
      'policy, change': 'diff, push, rollback: a policy that is "added", "removed" or "changed"',
      'keys[].key': 'a key that is different',
      'keys[].before, keys[].after': 'its values, as JSON; null: none',
    },
    'versions[]': {
      version: 'versions: one that is stored, the newest first',
      id: 'distinguishes it from others that have its number after a loss of the rules; empty if it is older',
      atMs: 'when it was written, in milliseconds since the Unix epoch; 0: never',
      'actor, comment': 'by whom, and why',
    },
  },
  top: {
    'redis, atMs': 'host of the database, and time of the look, in milliseconds since the Unix epoch',
    server: {
      keys: 'all keys of the database, others’ as well',
      'latencyMs, slowestMs': 'round trip of PING from here: the middle one of five, and the slowest',
      'memoryBytes, memoryLimitBytes': 'memory that Redis uses, and of how much; null: unknown, or no limit',
      memoryPolicy: 'what becomes of keys when memory is full; null: unknown',
    },
    keys: 'keys of Sluice; an estimate until all have been gone through once',
    'share, passes': 'share of the database that was gone through in this pass, 0 to 1, and how many passes are over',
    withoutTtl: 'keys of Sluice without a time to live, of which there must be none',
    unknown: 'keys with the prefix that belong to no configured policy',
    'busiest[], atLimit[]': {
      'policy, digest': 'the policy, and the digest of the caller',
      unitsPerS: 'units admitted in a second, of late; null: unknown',
      'limitName, used, limit': 'the limit of which the largest share is used, units used of it, and of how many',
      retryAfterMs: 'until a request of one unit is admitted; 0: now',
      'looks, looksAtLimit': 'how often it was looked at, and how often it was at a limit then',
    },
  },
  expire: {
    ...SWEEP,
    ttlMs: 'the time to live, in milliseconds',
    set: 'keys that were given it; with --dry-run and --sample, that would be',
    had: 'keys that had one, and rules and audit logs of Sluice',
    settable: 'of a sample: keys of the whole database that would be given one, by estimate; else null',
  },
  delete: {
    ...SWEEP,
    deleted: 'keys that were deleted; with --dry-run, that would be',
  },
}

/** Lists the paths of fields, such as `limits[].used`, with what they mean. */
export function listFields(
  fields: Fields,
  parent = '',
): readonly (readonly [paths: readonly string[], meaning: string])[] {
  return Object.entries(fields).flatMap(([names, meaning]) => {
    const paths = names.split(', ').map((name) => parent + name)
    if (typeof meaning === 'string') return [[paths, meaning] as const]
    return paths.flatMap((path) => listFields(meaning, `${path}.`))
  })
}
