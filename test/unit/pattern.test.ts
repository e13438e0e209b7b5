import { expect, test } from 'vitest'
import { parsePattern } from '../../src/policy/pattern.ts'

test.each([
  ['/login', '*', '/login'],
  ['POST /login', 'POST', '/login'],
  ['m-search /login', 'M-SEARCH', '/login'],
  ['post /login', 'POST', '/login'],
  ['  POST   /login  ', 'POST', '/login'],
  ['* /login', '*', '/login'],
  ['*', '*', '/*'],
  ['OPTIONS *', 'OPTIONS', '/*'],
  ['GET /', 'GET', '/'],
  ['GET /*', 'GET', '/*'],
  ['GET /users/:id', 'GET', '/users/:id'],
  ['GET /users/:user_id/posts/:post', 'GET', '/users/:user_id/posts/:post'],
  ['GET /a/*/c', 'GET', '/a/*/c'],
  ['PUT /upload/*', 'PUT', '/upload/*'],
  ['/a;v=1/b@c', '*', '/a;v=1/b@c'],
])('parsePattern() reads "%s"', (text, method, path) => {
  expect(parsePattern(text)).toEqual({ method, path })
})

test.each([
  ['/login/', '/login'],
  ['//login', '/login'],
  ['/x/../login', '/login'],
  ['/%6Cogin', '/login'],
  ['/a%2fb', '/a%2Fb'],
  ['/caf\u00e9', '/caf%C3%A9'],
  ['/upload/*/', '/upload/*'],
  ['/:id/', '/:id'],
  ['/users/%40me', '/users/@me'],
  ['/a[1]', '/a%5B1%5D'],
])('parsePattern() makes the path canonical, as those of requests are: %s', (text, path) => {
  expect(parsePattern(text)?.path).toBe(path)
})

test.each(['/%3Aid', '/a%2A', '/%3a', '/%2a'])('parsePattern() makes no wildcard of an escaped sign: %s', (text) => {
  expect(parsePattern(text)?.path).toBe(text.toUpperCase().replace('ID', 'id').replace('/A%', '/a%'))
})

test.each([
  ...[
    '',
    ' ',
    'login',
    'GET',
    'GET login',
    'GET POST /login',
    'GET, /login',
    'GET/login',
    'ALL /login',
    'ANY *',
    'GETT /login',
    'GET-POST /login',
  ],
  ...['/log in', 'GET /a /b', '/login?next=1', '/login#top', '/a\\b', 'https://api.example.com/login'],
  ...['/users/:', '/users/:id?', '/users/:id{[0-9]+}', '/users/:a-b', '/users/me:id', '/a*', '/*a', '/a/**', '/{a}'],
])('parsePattern() refuses "%s"', (text) => {
  expect(parsePattern(text)).toBeUndefined()
})
