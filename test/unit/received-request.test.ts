import { expect, test } from 'vitest'
import { readAnnouncedBytes, readMethods } from '../../src/http/request/received-request.ts'

const KNOWN = ['GET', 'PUT', 'DELETE']
const HEADERS = ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override']

/** The methods meant by a POST of this query and these fields; with a "?" at the end if others may be. */
function read(query: string, fields: Readonly<Record<string, string>> = {}, known: readonly string[] = KNOWN) {
  const url = `https://gateway.example/${query}`
  const { meant, isCertain } = readMethods({ method: 'POST', headers: new Headers(fields), url }, known)
  return `${meant.join(' ')}${isCertain ? '' : ' ?'}`
}

test('readMethods() needs nothing where no pattern names a method', () => {
  expect(read('?_method=PUT', { 'X-HTTP-Method': 'PUT' }, [])).toBe('POST')
})

test.each(HEADERS)('readMethods() reads %s', (name) => {
  expect(read('', { [name]: 'put' })).toBe('POST PUT ?')
  expect(read('', { [name]: 'post' })).toBe('POST')
  expect(read('', { [name]: 'PATCH' })).toBe('POST ?')
  expect(read('', { [name]: '' })).toBe('POST')
  expect(read('', { [name]: 'PUT, DELETE' })).toBe('POST PUT DELETE ?')
  expect(read('?_method=DELETE', { [name]: 'PUT' })).toBe('POST PUT DELETE ?')
  expect(read('', { [name]: `PUT${' '.repeat(96)}.` })).toBe('POST PUT ?')
  // No method is as long: it may be any.
  expect(read('', { [name]: `PUT${'x'.repeat(97)}` })).toBe('POST ?')
  expect(read('', { [name]: `POST${'x'.repeat(97)}` })).toBe('POST GET PUT DELETE ?')
})

test.each([
  ...[
    '?_method=PUT',
    '?a=1&_method=PUT',
    '?a;_method=put',
    '?_METHOD=PUT',
    '?.method=PUT',
    '?[method=PUT',
    '?+method=PUT',
  ],
  ...[
    '?+_method=PUT',
    '?%20%20_method=PUT',
    '?%2520_method=PUT',
    '?%5Fmethod=PUT',
    '?%5fmethod=PUT',
    '?%255Fmethod=PUT',
  ],
  ...['?%2Emethod=PUT', '?%5Bmethod=PUT', '?%20method=PUT', '?%3F_method=PUT', '?a%26_method=PUT', '?a%3B_method=PUT'],
  ...['?_%6d%65%74%68%6f%64=PUT', '?_%4D%45%54%48%4F%44=PUT', '?_%254D%2565%2574%2568%256F%2564=PUT'],
  ...['?_method[]=PUT', '?_method%00x=PUT', '?_method=%50UT', '?_method=%2550UT', '?_method=x+PUT', '?_method=x%2BPUT'],
  ...['?_method=a&_method=PUT', `?_method=${'%50'.repeat(98)}+&_method=PUT`],
])('readMethods() finds PUT in %s', (query) => expect(read(query)).toMatch(/^POST PUT(?: \?)$/))

test.each([
  '',
  '?',
  '?method=PUT',
  '?a_method=PUT',
  '?a=_method=PUT',
  '?_metho=PUT',
  '?_method',
  '?_method=POST&b=PUT',
])('readMethods() finds nothing in %s', (query) => expect(read(query)).toBe('POST'))

test('readMethods() reads ten values, and takes more for any method', () => {
  expect(read(`?${'_method=POST&'.repeat(10)}`)).toBe('POST')
  expect(read(`?${'_method=POST&'.repeat(11)}`)).toBe('POST GET PUT DELETE ?')
  expect(read(`?${'_method=POST&'.repeat(30)}`)).toBe('POST GET PUT DELETE ?')
  expect(read(`?${'_method=POST&'.repeat(9)}_method=PUT`)).toBe('POST PUT ?')
})

test('readMethods() takes one long value among others for any method', () => {
  expect(read('?_method=PUT', { 'X-HTTP-Method': 'x'.repeat(101) })).toBe('POST GET PUT DELETE ?')
})

test('readMethods() decodes what is no longer than the escapes of a method', () => {
  expect(read(`?_method=${'%41'.repeat(99)}`)).toBe('POST ?')
  expect(read(`?_method=${'%41'.repeat(100)}`)).toBe('POST GET PUT DELETE ?')
  expect(read(`?_method=PUT${'%2520'.repeat(59)}`)).toBe('POST PUT ?')
  expect(read(`?_method=PUT${'%2520'.repeat(60)}`)).toBe('POST GET PUT DELETE ?')
})

test.each<[fields: Readonly<Record<string, string>>, bytes: number | undefined]>([
  [{}, undefined],
  [{ 'Content-Length': '0' }, 0],
  [{ 'Content-Length': '12' }, 12],
  [{ 'Content-Length': '9'.repeat(15) }, 999_999_999_999_999],
  [{ 'Content-Length': '9'.repeat(16) }, undefined],
  [{ 'Content-Length': 'x12' }, undefined],
  [{ 'Content-Length': '12x' }, undefined],
  [{ 'Content-Length': '1.2' }, undefined],
  [{ 'Content-Length': '' }, undefined],
  [{ 'Content-Length': '12', 'Transfer-Encoding': 'chunked' }, undefined],
])('readAnnouncedBytes() of %j: %s', (fields, bytes) => expect(readAnnouncedBytes(new Headers(fields))).toBe(bytes))
