export async function listenFastify(name) {
  const { default: fastify } = await import(name)
  const app = fastify()
  app.post('/login', (_, reply) => reply.header('X-Handler', 'login').send('login'))
  app.get('/users/:id', (_, reply) => reply.header('X-Handler', 'read').send('read'))
  app.delete('/users/:id', (_, reply) => reply.header('X-Handler', 'remove').send('remove'))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return app.server
}
