/** Readers of values, used as `v`: what an option may be, and the one way to read it, in code, in JSON or in a variable. */
import { ON_STORE_ERROR, POLICY_MODES } from '../model/policy.ts'
import { describeUnknown, OptionError, parseKeys } from './option-error.ts'

/** Names an option: a text such as `policies[0].limits`, or a list of its keys. */
type Where = string | readonly (string | number)[]

/** Reads values of one kind. `Input` is what may be written for them. */
export interface Reader<Output = unknown, Input = Output> {
  /** Messages say it of a wrong value: what was expected in its place. */
  readonly expected: string | ((value: unknown) => string)
  /** @returns undefined for a wrong value @throws {OptionError} that names one inside of it */
  readonly parse: (value: unknown, where: Where) => Output | undefined
  /** False or left out: in a table, the option may be missing. */
  readonly isRequired?: boolean
  /** Stands for a missing option. */
  readonly byDefault?: unknown
  /** Never set: it carries the type. */
  readonly input?: Input
  // The rest is for schemas that editors read. `numbers` are texts that stand for a number.
  readonly values?: readonly unknown[]
  readonly pattern?: RegExp
  readonly numbers?: RegExp
  readonly min?: number
  readonly max?: number
}

export interface IsRequired {
  readonly isRequired: true
}
export interface HasDefault {
  readonly byDefault: NonNullable<unknown>
}

export type Readers = Readonly<Record<string, Reader>>
type Output<Kind> = Kind extends Reader<infer Value, infer _> ? Value : never
type Input<Kind> = Kind extends Reader<infer _, infer Value> ? Value : never
type NamesWith<Kind, Table> = { [Name in keyof Table]: Table[Name] extends Kind ? Name : never }[keyof Table]

/** A table of options as it is read. */
export type Values<Table> = {
  readonly [Name in NamesWith<IsRequired | HasDefault, Table>]: Output<Table[Name]>
} & {
  readonly [Name in Exclude<keyof Table, NamesWith<IsRequired | HasDefault, Table>>]?: Output<Table[Name]> | undefined
}

/** A table of options as it is written. */
export type Inputs<Table> = {
  readonly [Name in NamesWith<IsRequired, Table>]: Input<Table[Name]>
} & { readonly [Name in Exclude<keyof Table, NamesWith<IsRequired, Table>>]?: Input<Table[Name]> | undefined }

/** Reads a value that must be there. @throws {OptionError} */
export function read<Value>(reader: Reader<Value, unknown>, value: unknown, where: Where): Value {
  const parsed = reader.parse(value, where)
  if (parsed !== undefined) return parsed
  throw new OptionError(where, describeExpected(reader, value), value)
}

export function describeExpected({ expected }: Reader, value: unknown): string {
  return typeof expected === 'string' ? expected : expected(value)
}

/** Reads the options that a table has readers of. @throws {OptionError} for the first that is wrong */
export function readValues<const Table extends Readers>(readers: Table, values: object, where: Where = []) {
  const keys = toKeys(where)
  const found: Record<string, unknown> = {}
  for (const [name, reader] of Object.entries(readers)) {
    const { [name]: given = reader.byDefault } = values as Readonly<Record<string, unknown>>
    if (given !== undefined || reader.isRequired) found[name] = read(reader, given, [...keys, name])
  }
  return found as Values<Table>
}

/**
 * Reads the options of a function.
 * @param name of the function, in errors about the options as a whole
 * @param where the options stand; by default, each is named without a place
 * @throws {OptionError} if one is wrong, or has another name, e.g. a misspelt one
 */
export function readOptions<const Table extends Readers>(
  name: string,
  options: unknown,
  readers: Table,
  where: Where = [],
): Values<Table> {
  checkNames(name, options, Object.keys(readers))
  return readValues(readers, options as object, where)
}

/** @param noun says what the names are of */
export function checkNames(where: Where, value: unknown, names: readonly string[], noun = 'option'): void {
  if (!isTable(value)) throw new OptionError(where || 'options', 'an object', value)
  const stray = Object.keys(value).find((key) => !names.includes(key))
  if (stray === undefined) return
  throw new OptionError([...toKeys(where), stray], describeUnknown(noun, names, stray), stray, 'UNKNOWN_OPTION')
}

function toKeys(where: Where): readonly (string | number)[] {
  return typeof where === 'string' ? parseKeys(where) : where
}

function isTable(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export const required = <Kind extends Reader>(reader: Kind): Kind & IsRequired => ({ ...reader, isRequired: true })

export const withDefault = <Kind extends Reader>(
  reader: Kind,
  byDefault: Input<Kind> & NonNullable<unknown>,
): Kind & HasDefault => ({ ...reader, byDefault })

export const accepted = <Value>(expected: string, isRight: (value: unknown) => boolean): Reader<Value> => ({
  expected,
  parse: (value) => (isRight(value) ? (value as Value) : undefined),
})

export const parsed = <Value>(expected: string, parse: (text: string) => Value | undefined): Reader<Value, string> => ({
  expected,
  parse: (value) => (typeof value === 'string' ? parse(value) : undefined),
})

export const anyText = (expected = 'a string'): Reader<string> => ({
  expected,
  parse: (value) => (typeof value === 'string' ? value : undefined),
})

export const matching = (pattern: RegExp, expected: string): Reader<string> & { readonly pattern: RegExp } => ({
  pattern,
  ...parsed(expected, (text) => (pattern.test(text) ? text : undefined)),
})

export const oneOf = <const Value>(...values: readonly Value[]): Reader<Value> => ({
  values,
  ...accepted(values.map((value) => JSON.stringify(value)).join(' or '), (value) => values.includes(value as Value)),
})

export const between = (expected: string, isWithin: (value: number) => boolean) =>
  accepted<number>(expected, (value) => typeof value === 'number' && isWithin(value))

export const integer = (min: number, max: number, expected = `an integer from ${min} to ${max}`): Reader<number> => ({
  min,
  max,
  ...between(expected, (value) => Number.isInteger(value) && value >= min && value <= max),
})

/** Makes something else of what a reader reads. */
export const mapped = <Value, Written, Made>(
  reader: Reader<Value, Written>,
  convert: (value: Value) => Made | undefined,
): Reader<Made, Written> => ({
  ...(reader as Reader<unknown, Written>),
  parse(value, where) {
    const parsed = reader.parse(value, where)
    return parsed === undefined ? undefined : convert(parsed)
  },
})

/** Refuses some of what a reader reads, with a message of its own. */
export const narrowed = <Value, Written>(
  reader: Reader<Value, Written>,
  isRight: (value: Value) => boolean,
  expected: string,
): Reader<Value, Written> => ({
  ...mapped(reader, (value) => (isRight(value) ? value : undefined)),
  expected: (value) => (reader.parse(value, []) === undefined ? describeExpected(reader, value) : expected),
})

/** Reads what the first of two reads, or else the second. */
export const either = <Value, Written, Other, OtherWritten>(
  first: Reader<Value, Written>,
  second: Reader<Other, OtherWritten>,
  expected: Reader['expected'],
): Reader<Value | Other, Written | OtherWritten> => ({
  expected,
  parse: (value, where) => first.parse(value, where) ?? second.parse(value, where),
})

/** Reads an object that has these functions. Messages do not show it: a client holds its token. */
export const having = <Value>(methods: readonly string[], expected: string): Reader<Value> => ({
  expected,
  parse(value, where) {
    if (methods.every((name) => typeof Object(value)[name] === 'function')) return value as Value
    throw new OptionError(where, expected, typeof value)
  },
})

export const list = <Value, Written>(
  item: Reader<Value, Written>,
  expected: string,
): Reader<readonly Value[], readonly Written[]> => ({
  expected,
  parse: (value, where) =>
    Array.isArray(value) ? value.map((each, index) => read(item, each, [...toKeys(where), index])) : undefined,
})

/** Reads a table whose names are free. */
export const record = <Value, Written>(
  names: Reader<string>,
  item: Reader<Value, Written>,
  expected: string,
): Reader<Readonly<Record<string, Value>>, Readonly<Record<string, Written>>> => ({
  expected,
  parse(value, where) {
    if (!isTable(value)) return undefined
    const entries = Object.entries(value).map(([name, each]) => {
      return [read(names, name, where), read(item, each, [...toKeys(where), name])] as const
    })
    return Object.fromEntries(entries)
  },
})

/** @param noun says what its names are of */
export const table = <const Table extends Readers>(
  readers: Table,
  expected: string,
  noun = 'option',
): Reader<Values<Table>, Inputs<Table>> => ({
  expected,
  parse(value, where) {
    if (!isTable(value)) return undefined
    checkNames(where, value, Object.keys(readers), noun)
    return readValues(readers, value, where)
  },
})

// Options of more than one home: of the library, the middleware, outbound calls and variables.

export const MAX_COST = 1_000_000_000
export const NAME = matching(/^[\w-]{1,64}$/, 'up to 64 letters, digits, "-" or "_"')
export const KEY_PREFIX = matching(/^[\w.:-]{1,64}$/, 'up to 64 letters, digits, "_", ".", ":" or "-"')
export const IDENTITY_SECRET = matching(/^.{16,}$/s, 'at least 16 characters')
export const BOOLEAN = oneOf(true, false)
/** It is read elsewhere, with others. */
export const ANYTHING = accepted<unknown>('anything', () => true)
// biome-ignore lint/suspicious/noExplicitAny: what it takes and returns is checked by the compiler
export const FUNCTION = accepted<(...args: any) => any>('a function', (value) => typeof value === 'function')
export const SIGNAL = having<AbortSignal>(['addEventListener'], 'an AbortSignal')
/** It is called once: by a clock that is no number, every request would be the first. */
export const CLOCK: Reader<() => number> = {
  expected: 'a function',
  parse(now, where) {
    if (typeof now !== 'function') return undefined
    read(accepted('a clock that returns milliseconds', Number.isFinite), now(), where)
    return now as () => number
  },
}
/** Milliseconds, or `Infinity`. */
export const DURATION_MS = between('milliseconds from 0', (value) => value >= 0)
/** The deadline of a decision. */
export const STORE_TIMEOUT_MS = integer(1, 60_000)
export const STORE_READERS = { timeoutMs: withDefault(STORE_TIMEOUT_MS, 500) }
export const MODE = oneOf(...POLICY_MODES)
export const STORE_ERROR_FALLBACK = oneOf(...ON_STORE_ERROR)
export const SHARE = between('a share above 0 and at most 1', (value) => value > 0 && value <= 1)
const LEASE_SIZE = integer(2, 10_000)
/** Permits that are taken in advance. */
export const LEASES = either(oneOf('off', 'auto'), LEASE_SIZE, `"off", "auto" or ${LEASE_SIZE.expected}`)
