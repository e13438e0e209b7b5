# What Sinatra's params hold, those of the path among them.
require "sinatra/base"

class Api < Sinatra::Base
  set environment: :production, logging: false, bind: "127.0.0.1", port: ARGV[0], server: "webrick"
  %w[/ /at/:api_key].each do |path|
    get(path) { params["api_key"].to_s }
    post(path) { params["api_key"].to_s }
  end
end

Api.run!
